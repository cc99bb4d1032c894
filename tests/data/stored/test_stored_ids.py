from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossgcn.data import build_graph, open_graph
from crossgcn.data.stored import open as stored_ids
from crossgcn.data.stored.open import StoredIds, encode_ids
from crossgcn.data.stored.write import writing_graph
from crossgcn.errors import BadInput


@given(st.lists(st.text(max_size=6)), st.integers(1, 5), st.data())
def test_names_come_back_to_the_last_character(
    names: list[str], piece: int, draw: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_ids, "PIECE", piece)
        written = list(encode_ids(names))
        offsets = np.concatenate([[0], *(ends for ends, _ in written)]).astype(np.int64)
        text = np.concatenate([np.zeros(0, np.uint8), *(part for _, part in written)])
        ids = StoredIds(offsets, text)
        assert list(ids) == names
        assert [ids[node] for node in range(len(ids))] == names
        start, stop = (draw.draw(st.integers(-7, 7)) for _ in range(2))
        assert ids[start:stop] == tuple(names[start:stop])
        for name in names:
            assert ids.index(name) == names.index(name)
    with pytest.raises(ValueError):
        ids.index("more than six")
    with pytest.raises(IndexError):
        ids[len(names)]


def test_half_characters_and_zeros_are_kept(tmp_path: Path) -> None:
    names = ["a\0", "a", "\ud800", ""]
    with writing_graph(tmp_path / "graph", num_nodes=4) as writer:
        writer.set_ids(names)
    ids = open_graph(tmp_path / "graph").ids
    assert ids is not None and list(ids) == names and ids[-2] == "\ud800"


def test_a_name_for_every_node(tmp_path: Path) -> None:
    with (
        pytest.raises(BadInput, match="ids are given for 2 nodes, but there are 3"),
        writing_graph(tmp_path / "graph", num_nodes=3) as writer,
    ):
        writer.set_ids(["a", "b"])
    assert not (tmp_path / "graph").exists()


def import_shop(tmp_path: Path, first: str, out: str) -> Path:
    (tmp_path / "nodes.csv").write_text(f"who,hat,buys\n{first},red,tea\nn2,blue,rum\nn3,red,tea\n")
    (tmp_path / "edges.csv").write_text(f"a,b\n{first},n2\nn2,n3\n")
    return build_graph(tmp_path / "edges.csv", tmp_path / "nodes.csv", out=tmp_path / out).folder


def test_names_are_part_of_what_a_folder_is(tmp_path: Path) -> None:
    one, two = (open_graph(import_shop(tmp_path, name, name)) for name in ("n1", "m1"))
    assert one.ids is not None and one.ids[:] == ("n1", "n2", "n3")
    assert one.fingerprint != two.fingerprint
    path = one.folder / "id_text.npy"
    path.write_bytes(path.read_bytes().replace(b"n1n2n3", b"n1n3n2"))
    with pytest.raises(BadInput, match=r"id_text\.npy: was changed"):
        open_graph(one.folder).verify()
