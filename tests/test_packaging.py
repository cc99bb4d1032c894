"""What a release carries: pinned versions, links that open, and the tested lower bounds."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from importlib.metadata import requires
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
        if name in ("crossgcn", "setuptools"):  # the latter comes with the environment
            continue
        found.setdefault(name, requirement)
        for wanted in {"", *requirement.extras}:
            if (name, wanted) not in asked:
                asked.add((name, wanted))
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


def test_every_package_that_an_extra_brings_is_pinned() -> None:
    lines = (PROJECT / "constraints.txt").read_text().splitlines()[1:]
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines}
    assert set(needed_here()) <= pinned


def test_every_pin_is_within_the_range_of_pyproject() -> None:
    lines = (PROJECT / "constraints.txt").read_text().splitlines()[1:]
    pins = {canonicalize_name(name): pin for name, _, pin in (x.partition("==") for x in lines)}
    for requirement in own_requirements():
        name = canonicalize_name(requirement.name)
        if name in pins:
            assert requirement.specifier.contains(pins[name]), requirement


def test_every_dependency_has_a_lower_bound_that_test_oldest_can_install() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    for text in project["dependencies"]:
        assert re.match(r"[a-z0-9-]+>=[0-9.]+(;|$)", text), text


def test_all_links_of_a_released_readme_are_absolute(release_pages: ModuleType) -> None:
    page = (PROJECT / "README.md").read_text()
    built = release_pages.make_links_absolute(page, ADDRESS)
    links = ANY_LINK.findall(built)
    assert len(links) == len(ANY_LINK.findall(page)) > 10
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
