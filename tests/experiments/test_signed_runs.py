"""``--sign`` and ``--trust``: a folder whose seals are right is still not the author's."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from torch import Tensor
from torch_geometric.data import Data

from crossgcn.data.files import write_json
from crossgcn.data.seals import add_checksum, digests_of_files
from crossgcn.data.stored.import_graph import store_graph
from crossgcn.errors import BadInput
from crossgcn.experiments.run_folder import open_run
from crossgcn.graph.hops import HopPlan
from crossgcn.graph.kept_columns import columns_beside
from crossgcn.graph.neighbourhood import Smoothing
from crossgcn.models.cross_hops import CrossHops
from crossgcn.workflows.table_model import TableModel

Command = Callable[..., CompletedProcess[str]]
OUT = {"report": ("--out", "page.html")}
QUICK = ("--model", "cross-gcn", "--splits", "public", "--epochs", 2, "--workers", 1)


def make_key(name: str, content: bytes | None = None, mode: int = 0o600) -> Path:
    path = Path(name)
    path.write_bytes(os.urandom(32) if content is None else content)
    path.chmod(mode)
    return path


@pytest.fixture
def key(crossgcn: Command, graph_file: Path) -> Path:
    """The key of the signed folder ``run``."""
    key = make_key("key")
    done = crossgcn("train", graph_file, *QUICK, "--out", "run", "--sign", key)
    assert done.returncode == 0, done.stderr
    return key


def refuse(crossgcn: Command, key: Path | str, *words: str) -> None:
    """The three commands refuse the folder, and nothing is written."""
    for command in (
        ("predict", "run"),
        ("explain", "run"),
        ("report", "run", "--out", "page.html"),
    ):
        done = crossgcn(*command, "--trust", key)
        assert done.returncode == 2, command
        said = " ".join(done.stderr.split())
        assert all(word in said for word in words), said
    assert not Path("predictions.csv").exists() and not Path("page.html").exists()


def change_json(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a sealed file, and seal it again, as anybody can."""
    content = json.loads(path.read_bytes())
    content.pop("sha256", None)
    change(content)
    write_json(path, add_checksum(content))


def seal_again(run: Path) -> None:
    """Compute every checksum of a run folder again."""
    place = run / json.loads((run / "chosen.json").read_bytes())["run"]
    for folder, name in ((place, "config"), (run, "config"), (place, "run"), (run, "chosen")):
        files = json.loads((folder / f"{name}.json").read_bytes())["files"]
        sealed = {"files": digests_of_files(folder, files)}
        change_json(folder / f"{name}.json", partial(dict.update, **sealed))


def test_a_signed_folder_is_trusted_and_answers_as_without_a_key(
    crossgcn: Command, key: Path
) -> None:
    answers = []
    for more in ((), ("--trust", key)):
        assert crossgcn("predict", "run", *more).returncode == 0
        answers.append(Path("predictions.csv").read_bytes())
        assert crossgcn("explain", "run", *more).returncode == 0
        assert crossgcn("report", "run", "--out", "page.html", *more).returncode == 0
    assert answers[0] == answers[1]
    assert TableModel.load("run", trust=str(key)).run.data.num_nodes == 90
    # The page that report writes into the folder by default is not a part of the run.
    assert crossgcn("report", "run").returncode == 0
    assert crossgcn("report", "run", "--trust", key).returncode == 0


def test_one_changed_byte_with_every_checksum_made_again_is_refused(
    crossgcn: Command, key: Path
) -> None:
    place = Path("run") / json.loads(Path("run/chosen.json").read_bytes())["run"]
    for folder in (place, Path("run")):
        weights = bytearray((folder / "model.safetensors").read_bytes())
        weights[-1] ^= 1
        (folder / "model.safetensors").write_bytes(weights)
    seal_again(Path("run"))
    assert open_run(Path("run")).chosen.folder == place, "all checksums are right"
    refuse(crossgcn, key, "run/signature.json: is not the signature of this folder by this key")


@pytest.mark.parametrize(
    "change",
    [
        lambda run: change_json(run / "result.json", lambda c: c.update(warnings=["none"])),
        lambda run: (run / "result.json").unlink(),
        lambda run: write_json(run / "nodes.json", {"ids": [f"x{n}" for n in range(90)]}),
        lambda run: write_json(run / "graph_folder.json", {"folder": str(run.resolve())}),
        lambda run: change_json(run / "chosen.json", lambda c: c["files"].popitem()),
        lambda run: (run / "signature.json").write_text('{"hmac_sha256": null}'),
        lambda run: (run / "signature.json").write_text('{"hmac_sha256": "é"}'),
        lambda run: (run / "signature.json").write_text('{"hmac_sha256": "\\ud800"}'),
        lambda run: (run / "signature.json").write_text("[]"),
    ],
)
def test_what_is_read_beside_the_model_is_signed_too(
    crossgcn: Command, key: Path, change: Callable[[Path], object]
) -> None:
    change(Path("run"))
    refuse(crossgcn, key, "run/signature.json: is not the signature of this folder by this key")


def test_another_key_and_a_missing_signature_are_refused(crossgcn: Command, key: Path) -> None:
    refuse(crossgcn, make_key("other"), "it was signed with another key")
    Path("run/signature.json").unlink()
    refuse(
        crossgcn, key, "run is not signed: there is no signature.json in it", "--resume --sign KEY"
    )


def test_files_that_the_signature_only_names_by_hash_are_verified_first(
    crossgcn: Command, key: Path
) -> None:
    for name in ("config.json", "splits.npz", "model.safetensors"):
        whole = Path("run", name).read_bytes()
        Path("run", name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        refuse(crossgcn, key, f"run/{name}: is not what was written there")
        Path("run", name).write_bytes(whole)


def test_keys_that_prove_nothing_are_refused_before_any_work(
    crossgcn: Command, key: Path, graph_file: Path
) -> None:
    short, shown = make_key("short", b"x" * 31), make_key("shown", mode=0o644)
    written, shared = make_key("written", mode=0o602), make_key("shared", mode=0o640)
    for given, words in (
        (short, "at least 32 bytes, this file has 31; make one with"),
        (shown, "chmod 600 shown"),
        (written, "chmod 600 written"),
        (shared, "chmod 600 shared"),
        (Path("absent"), "absent: the key cannot be read (No such file or directory); make one"),
    ):
        refuse(crossgcn, given, words)
        done = crossgcn("train", graph_file, *QUICK, "--out", "new", "--sign", given)
        assert done.returncode == 2 and words in " ".join(done.stderr.split())
        assert not Path("new").exists()
    inside = make_key("run/key", key.read_bytes())
    refuse(crossgcn, inside, "a key in the folder itself proves nothing")


def test_a_run_that_continues_is_signed_anew(
    crossgcn: Command, key: Path, graph_file: Path
) -> None:
    before = Path("run/signature.json").read_bytes()
    again = ("train", graph_file, *QUICK, "--out", "run", "--resume")
    assert crossgcn(*again).returncode == 0
    refuse(crossgcn, key, "run is not signed: there is no signature.json in it")
    assert crossgcn(*again, "--sign", key).returncode == 0
    assert open_run(Path("run"), trust=key).data.num_nodes == 90
    assert Path("run/signature.json").read_bytes() != before, "result.json has another time"


def test_a_graph_folder_is_verified_as_a_whole(crossgcn: Command, small_graph: Data) -> None:
    key = make_key("key")
    store_graph(small_graph, Path("graph"))
    done = crossgcn("train", "graph", *QUICK, "--out", "run", "--sign", key)
    assert done.returncode == 0, done.stderr
    assert open_run(Path("run"), trust=key, load=False).data.num_nodes == 90
    path = Path("graph/feature_values.npy")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert open_run(Path("run"), load=False).data.num_nodes == 90, "not read yet"
    with pytest.raises(BadInput, match=r"feature_values\.npy: was changed"):
        open_run(Path("run"), trust=key, load=False)


def test_columns_that_were_added_to_a_graph_folder_are_not_trusted(
    crossgcn: Command, small_graph: Data
) -> None:
    key, graph = make_key("key"), store_graph(small_graph, Path("graph"))
    quick = ("--model", "cross-hops", "--bags", 2, *QUICK[2:])
    done = crossgcn("train", "graph", *quick, "--out", "run", "--sign", key)
    assert done.returncode == 0, done.stderr

    def predict(*more: str | Path) -> bytes:
        assert crossgcn("predict", "run", *more).returncode == 0
        return Path("predictions.csv").read_bytes()

    before = predict()
    model = open_run(Path("run")).saved.model
    assert isinstance(model, CrossHops)
    plan = HopPlan(model.plan.num_features, model.plan.hops)

    def fill(columns: Tensor) -> Smoothing:
        columns.fill_(1.0)
        return Smoothing(*(each.float() for each in model.smoothing))

    columns_beside(graph, plan).write(fill)
    assert predict() != before, "all checksums are right"
    assert predict("--trust", key) == before
    stored = open_run(Path("run"), trust=key, load=False).data.stored
    assert pickle.loads(pickle.dumps(stored)).sealed_only


def test_a_comparison_cannot_be_trusted(crossgcn: Command, key: Path) -> None:
    done = crossgcn("report", "run", "--trust", key, "--comparison", "somewhere")
    assert done.returncode == 2 and "comparisons are not signed" in done.stderr
