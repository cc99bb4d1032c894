from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest_fixtures import Command

from crossgcn import __version__
from crossgcn.cli.app import COMMANDS, PURPOSE
from crossgcn.models.catalogue import PRESETS
from crossgcn.training.config import RunConfig

ASK_EVERYTHING = """
import sys
from crossgcn.cli import main
COMMANDS = [[], ["data"], ["data", "list"], ["data", "get"]]
for name in "train compare check explain predict report hops".split():
    COMMANDS.append([name])
for command in COMMANDS:
    sys.argv = ["crossgcn", *command, "--help"]
    assert main() == 0
heavy = {"torch", "torch_geometric", "scipy", "numpy", "pandas", "sklearn", "pyarrow"}
heavy |= {"optuna", "matplotlib", "numba", "triton"}
sys.exit(f"help imports {heavy & sys.modules.keys()}" if heavy & sys.modules.keys() else 0)
"""


def test_help_waits_for_no_heavy_import() -> None:
    done = subprocess.run([sys.executable, "-c", ASK_EVERYTHING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--num-splits" in done.stdout


def test_the_list_of_commands_imports_none_of_them() -> None:
    ask = "import sys; from crossgcn.cli import main; sys.argv = ['crossgcn', '--help']; main()"
    ask += "; sys.exit(sum(name in sys.modules for name in ('pydantic', 'crossgcn.cli.train')))"
    assert subprocess.run([sys.executable, "-c", ask], capture_output=True).returncode == 0


def test_python_dash_m_is_the_command() -> None:
    command = [sys.executable, "-m", "crossgcn", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"crossgcn {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_screen(
    command: str, crossgcn: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = crossgcn(command, "--help").stdout.splitlines()
    assert 8 < len(lines) <= 45 and max(map(len, lines)) <= 100


def test_the_contracts_options_are_there(crossgcn: Command) -> None:
    text = crossgcn("train", "--help").stdout
    for option in (
        *("--model", "--num-layers", "--hidden-channels", "--order", "--dropout", "--epochs"),
        *("--splits", "--train", "--num-splits", "--hops", "--bags", "--metric", "--class-weight"),
        *("--patience", "--relation", "--json", "--out", "--seed", "--resume", "--config"),
    ):
        assert f"{option} " in text, option


def test_every_setting_is_listed_with_its_default(crossgcn: Command) -> None:
    text = crossgcn("train", "--settings").stdout
    for name in RunConfig.model_fields.keys() - {"dataset", "model"}:
        assert f"--set {name}=VALUE: " in text
    for name in PRESETS:
        assert f"--model {name}: " in text
    assert "--set learning_rate=VALUE: Learning rate of Adam. [default: 0.01]" in text
    assert "\ncross-hops, the model of tables:\n--set hops=VALUE: " in text


def test_without_arguments_five_commands_and_the_next_step_are_shown(crossgcn: Command) -> None:
    done = crossgcn()
    assert done.returncode == 0
    shown = re.findall(r"^  crossgcn (\w+) .*[A-Z]", done.stdout, re.MULTILINE)
    assert shown == ["check", "compare", "train", "explain", "report"]
    assert "\n  crossgcn train us-county --out counties\n" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_the_command_and_the_readme_say_what_it_does_in_the_same_words(crossgcn: Command) -> None:
    purpose = " ".join(PURPOSE.split())
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    for text in (readme, crossgcn("--help").stdout, crossgcn().stdout):
        assert purpose in " ".join(text.split())
