from __future__ import annotations

import hashlib
from pathlib import Path

import pooch
import pytest

from crossgcn.data import available, fetch, load_dataset
from crossgcn.data.datasets import catalogue
from crossgcn.data.datasets.catalogue import (
    REGISTRY,
    locate_files,
    locate_splits,
)
from crossgcn.errors import BadInput

PARTS = ("x", "y", "tx", "ty", "allx", "ally", "graph", "test.index")
CONTENT = {f"ind.pubmed.{part}": part.encode() for part in PARTS}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, no CROSSGCN_DATA, and a Pubmed of eight tiny files."""
    monkeypatch.delenv("CROSSGCN_DATA", raising=False)
    monkeypatch.setattr(catalogue, "user_cache_path", lambda _: tmp_path / "cache")
    for part in PARTS:
        digest = hashlib.sha256(part.encode()).hexdigest()
        monkeypatch.setitem(REGISTRY, f"planetoid/ind.pubmed.{part}", digest)
    return tmp_path / "cache"


def fill(root: Path) -> Path:
    folder = root / "planetoid"
    folder.mkdir(parents=True)
    for name, content in CONTENT.items():
        (folder / name).write_bytes(content)
    return folder


class FakeGitHub:
    """Stands in for pooch's downloader: serves what it has, fails on the rest."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content
        self.urls: list[str] = []

    def __call__(self, url: str, output_file: str, _: object) -> None:
        self.urls.append(url)
        name = url.rpartition("/")[2]
        if name not in self.content:
            raise ConnectionError(url)
        Path(output_file).write_bytes(self.content[name])


def use(monkeypatch: pytest.MonkeyPatch, github: FakeGitHub) -> FakeGitHub:
    monkeypatch.setattr(pooch, "HTTPDownloader", lambda **options: github)
    return github


def test_files_are_in_the_environments_folder_or_in_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert available("pubmed") is None
    cached = fill(cache)
    assert locate_files("pubmed") == [cached / name for name in CONTENT]
    assert available("pubmed") == "cache"
    monkeypatch.setenv("CROSSGCN_DATA", str(tmp_path))
    assert available("pubmed") is None
    given = fill(tmp_path)
    assert locate_files("pubmed") == [given / name for name in CONTENT]
    assert available("pubmed") == "CROSSGCN_DATA"
    for part in ("graph", "tx"):
        (given / f"ind.pubmed.{part}").unlink()
    assert available("pubmed") is None, "six files are no graph"
    with pytest.raises(BadInput, match="pubmed is not on this machine: run") as caught:
        load_dataset("pubmed")
    assert f"copy ind.pubmed.tx, ind.pubmed.graph to {given}" in str(caught.value)


def test_a_missing_environment_folder_is_reported(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSGCN_DATA", str(tmp_path / "typo"))
    with pytest.raises(BadInput, match=r"CROSSGCN_DATA is '.*typo', which is not a folder"):
        locate_files("pubmed")


def test_one_wrong_byte_names_file_expected_and_found(cache: Path) -> None:
    path = fill(cache) / "ind.pubmed.tx"
    path.write_bytes(b"tX")
    with pytest.raises(BadInput) as caught:
        locate_files("pubmed")
    message = str(caught.value)
    assert str(path) in message
    assert REGISTRY["planetoid/ind.pubmed.tx"] in message
    assert hashlib.sha256(b"tX").hexdigest() in message
    assert "delete it" in message


def test_missing_splits_name_the_three_ways_out(cache: Path) -> None:
    with pytest.raises(BadInput) as caught:
        locate_splits("cora")
    for way in ("CROSSGCN_DATA", str(cache / "splits"), "--splits random"):
        assert way in str(caught.value)
    with pytest.raises(BadInput, match="no splits for 'karate'"):
        locate_splits("karate")


def test_a_download_from_github_is_verified_and_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    github = use(monkeypatch, FakeGitHub(CONTENT))
    assert fetch("pubmed") == cache / "planetoid"
    assert {file.name: file.read_bytes() for file in (cache / "planetoid").iterdir()} == CONTENT
    assert all(url.startswith("https://github.com/kimiyoung/planetoid/") for url in github.urls)
    assert fetch("pubmed") == cache / "planetoid"
    assert len(github.urls) == 8, "what is there is not downloaded again"


@pytest.mark.parametrize(
    ("content", "reason", "kept"),
    [
        (
            {"ind.pubmed.x": b"x"},
            r"ind.pubmed.y cannot be fetched from GitHub .*ConnectionError",
            ["ind.pubmed.x"],
        ),
        (
            dict.fromkeys(CONTENT, b"<html>"),
            r"ind.pubmed.x cannot be fetched from GitHub .*wrong SHA-256",
            [],
        ),
    ],
)
def test_nothing_unverified_reaches_the_cache(
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: dict[str, bytes],
    reason: str,
    kept: list[str],
) -> None:
    use(monkeypatch, FakeGitHub(content))
    with pytest.raises(BadInput, match=reason) as caught:
        fetch("pubmed")
    assert "CROSSGCN_DATA" in str(caught.value) and "\n" not in str(caught.value)
    assert [file.name for file in cache.rglob("ind.*")] == kept


def test_an_unwritable_cache_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("a file where the folder should be")
    use(monkeypatch, FakeGitHub(CONTENT))
    with pytest.raises(BadInput, match=r"cannot be fetched .*planetoid \(NotADirec"):
        fetch("pubmed")


def test_names_planetoid_does_not_have_are_refused(cache: Path) -> None:
    with pytest.raises(BadInput, match="did you mean 'pubmed'"):
        fetch("pubmet")
