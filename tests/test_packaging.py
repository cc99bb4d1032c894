"""What a release carries: pinned versions, links that open, and the tested lower bounds."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import crossgcn

PROJECT = Path(__file__).parents[1]
ADDRESS = "https://forge.example/team/crossgcn"
ANY_LINK = re.compile(r"\]\(([^)\s]+)\)")


def own_requirements() -> list[Requirement]:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return [Requirement(text) for group in groups for text in group]


def needed_here() -> dict[str, Requirement]:
    """All packages that any extra installs on this machine, by name."""
    found: dict[str, Requirement] = {}
    asked: set[tuple[str, str]] = set()
    waiting = [(each, "") for each in own_requirements()]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        if name == "crossgcn":
            continue
        found.setdefault(name, requirement)
        for wanted in {"", *requirement.extras}:
            if (name, wanted) not in asked:
                asked.add((name, wanted))
                with suppress(PackageNotFoundError):  # PySpark is not installed for development
                    waiting += [(Requirement(text), wanted) for text in requires(name) or ()]
    return found


@pytest.fixture(scope="module")
def release_pages() -> ModuleType:
    """The build's own module, which is not part of the package."""
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", PROJECT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pins() -> dict[str, tuple[str, list[str]]]:
    """Version and hashes of every package in constraints.txt."""
    found: dict[str, tuple[str, list[str]]] = {}
    for part in re.split(r"\n(?=\S)", (PROJECT / "constraints.txt").read_text()):
        if pin := re.match(r"([A-Za-z0-9._-]+)==([^ ;]+)", part):
            found[canonicalize_name(pin[1])] = pin[2], re.findall(r"--hash=sha256:(\w+)", part)
    return found


def test_every_package_is_pinned_with_hashes_and_within_its_range() -> None:
    assert set(needed_here()) <= set(pins())
    content = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    groups = [content["build-system"]["requires"], *content["dependency-groups"].values()]
    for requirement in (*own_requirements(), *(Requirement(each) for g in groups for each in g)):
        if requirement.name != "crossgcn":  # extras made of extras
            version, _ = pins()[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version), requirement
    for name, (_, hashes) in pins().items():
        assert hashes and all(len(each) == 64 for each in hashes), name


def test_all_files_agree_about_the_version() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert project["version"] == crossgcn.__version__
    assert f"\nversion: {crossgcn.__version__}\n" in (PROJECT / "CITATION.cff").read_text()
    assert f"\n## {crossgcn.__version__}\n" in (PROJECT / "CHANGELOG.md").read_text()
    assert (PROJECT / "src/crossgcn/py.typed").exists()


def test_both_builds_of_torch_are_the_same_version() -> None:
    text = (PROJECT / "constraints-cpu.txt").read_text()
    pin = re.search(r"^torch==([0-9.]+)\+cpu \\\n +--hash=sha256:\w{64}$", text, re.MULTILINE)
    assert pin is not None
    assert pin[1] == pins()["torch"][0]


def test_lists_of_packages_name_no_registry() -> None:
    for path in PROJECT.glob("constraints*.txt"):
        assert "://" not in path.read_text()
        assert "index" not in path.read_text()


@pytest.mark.parametrize("name", ["run", "test", "test-wheel"])
def test_make_installs_packages_by_hash_only(name: str) -> None:
    """All but the project itself, which is installed without its requirements."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    asked = [shutil.which("make") or "", "--dry-run", "--always-make", name]
    recipe = subprocess.run(asked, cwd=PROJECT, capture_output=True, text=True, check=True).stdout
    installs = [line for line in recipe.splitlines() if "pip install" in line]
    assert installs
    for line in installs:
        assert "--require-hashes" in line or "--no-deps" in line, line


def test_every_dependency_has_a_lower_bound_that_test_oldest_can_install() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    for text in project["dependencies"]:
        assert re.match(r"[a-z0-9-]+>=[0-9.]+(;|$)", text), text


def test_all_links_of_a_released_readme_are_absolute(release_pages: ModuleType) -> None:
    page = (PROJECT / "README.md").read_text()
    built = release_pages.make_links_absolute(page, ADDRESS)
    links = ANY_LINK.findall(built)
    assert len(links) == len(ANY_LINK.findall(page)) + 1
    assert all("://" in link for link in links)
    for path in re.findall(rf"\]\({ADDRESS}/blob/HEAD/([^)#]+)", built):
        assert (PROJECT / path).exists(), path


def test_links_become_words_where_no_address_is_known(release_pages: ModuleType) -> None:
    page = "![picture](a.png) [here](docs/x.md) [there](https://x.example/y)\n```\n[a](b)\n```"
    words = "picture here [there](https://x.example/y)\n```\n[a](b)\n```"
    assert release_pages.make_links_absolute(page, "") == words
    assert release_pages.project_urls("") == {}


def test_pictures_and_sections_have_addresses_of_their_own(release_pages: ModuleType) -> None:
    built = release_pages.make_links_absolute("![p](a.png) [s](#results)", ADDRESS)
    assert built == f"![p]({ADDRESS}/raw/HEAD/a.png) [s]({ADDRESS}#results)"
    assert release_pages.project_urls(ADDRESS)["Repository"] == ADDRESS
