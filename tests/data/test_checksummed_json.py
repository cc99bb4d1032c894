from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossgcn.data.files import read_json_object
from crossgcn.data.seals import add_checksum, checksum_matches, digest_of_file
from crossgcn.errors import BadInput

objects = st.dictionaries(st.text().filter(lambda key: key != "sha256"), st.integers() | st.text())


@given(objects, st.text())
def test_a_checksum_survives_a_file_and_detects_a_change(
    content: dict[str, object], extra: str
) -> None:
    kept = json.loads(json.dumps(add_checksum(content)))
    assert checksum_matches(kept)
    assert not checksum_matches(kept | {"changed": extra + str(content.get("changed"))})
    assert not checksum_matches(content)


def test_a_file_that_is_not_there_has_no_hash(tmp_path: Path) -> None:
    assert digest_of_file(tmp_path / "absent") is None
    (tmp_path / "empty").touch()
    assert digest_of_file(tmp_path / "empty") is not None


def test_a_missing_a_damaged_and_another_json_file_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(BadInput, match=r"a\.json: cannot be read \(No such file.*; look here"):
        read_json_object(path, "look here", "make it again")
    path.write_text("{")
    with pytest.raises(BadInput, match=r"a\.json: is not valid JSON .*; make it again"):
        read_json_object(path, "look here", "make it again")
    path.write_text("[1]")
    assert read_json_object(path, "look here", "make it again") == {}
