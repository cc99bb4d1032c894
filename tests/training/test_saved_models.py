from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch_geometric.data import Data

from crossgcn.data.features import FeatureSpace, Preprocess
from crossgcn.data.files import sha256_of_files, write_hashed_json
from crossgcn.errors import BadInput
from crossgcn.models.catalogue import PRESETS, build_model
from crossgcn.models.node_classifier import NodeClassifier
from crossgcn.training.saved_models import (
    CONFIG,
    PREPROCESS,
    WEIGHTS,
    copy_model,
    load_model,
    load_saved,
    save_model,
)

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in PRESETS),
    ("gcn", {"num_layers": 1, "bias": True}),
    ("cross-gcn", {"order": 2, "order_weights": (1.0, 0.25), "aggregate_first": True}),
]


def saved(folder: Path, name: str = "cross-gcn", **settings: Any) -> NodeClassifier:
    torch.manual_seed(0)
    settings = {"hidden_channels": 5, **settings}
    model = build_model(name, 24, 3, **settings).eval()
    save_model(
        folder,
        model.state_dict(),
        preset=name,
        in_channels=24,
        settings=json.loads(json.dumps(settings)),
        preprocess=Preprocess(("a", "b", "c")),
    )
    return model


def rehash(folder: Path, **change: Any) -> None:
    """Make the hashes fit whatever the files hold, as nothing but a forger would."""
    config = json.loads((folder / CONFIG).read_bytes()) | change
    config.pop("sha256", None)
    config["files"] = sha256_of_files(folder, (WEIGHTS, PREPROCESS))
    write_hashed_json(folder / CONFIG, config)


@pytest.mark.parametrize(("name", "settings"), VARIANTS)
def test_a_saved_model_predicts_the_same_to_the_last_bit(
    name: str, settings: dict[str, Any], small_graph: Data, tmp_path: Path
) -> None:
    model = saved(tmp_path / "deep" / "model", name, **settings)
    loaded = load_model(tmp_path / "deep" / "model")
    assert not loaded.training
    with torch.no_grad():
        expected = model(small_graph.x, small_graph.edge_index)
        assert torch.equal(loaded(small_graph.x, small_graph.edge_index), expected)


def test_the_folder_holds_three_files_and_no_pickle(tmp_path: Path) -> None:
    saved(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "config.json",
        "model.safetensors",
        "preprocess.json",
    ]
    assert json.loads((tmp_path / "preprocess.json").read_bytes())["classes"] == ["a", "b", "c"]


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    model = saved(tmp_path)
    torch.save(model.state_dict(), tmp_path / "model.safetensors")
    rehash(tmp_path)
    with pytest.raises(BadInput, match=r"model\.safetensors: is damaged"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("config.json", r"cannot be read \(No such file"),
        ("preprocess.json", "is not what was written there .it is missing"),
        ("model.safetensors", "is not what was written there .it is missing"),
    ],
)
def test_a_missing_file_is_named(name: str, complaint: str, tmp_path: Path) -> None:
    saved(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(BadInput, match=rf"{name}: {complaint}"):
        load_model(tmp_path)


def test_a_model_of_another_format_is_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    rehash(tmp_path, format=1)
    with pytest.raises(BadInput, match=r"config\.json: is not of format 2"):
        load_model(tmp_path)


@pytest.mark.parametrize("length", [0, 4, 60, -1])
def test_truncated_weights_are_named(length: int, tmp_path: Path) -> None:
    saved(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(BadInput, match=r"model\.safetensors: is not what was written .* cut short"):
        load_model(tmp_path)
    rehash(tmp_path)
    with pytest.raises(BadInput, match=r"model\.safetensors: is damaged or belongs to another"):
        load_model(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "preprocess.json", "model.safetensors"])
def test_a_changed_letter_is_noticed(name: str, tmp_path: Path) -> None:
    saved(tmp_path)
    path = tmp_path / name
    content = bytearray(path.read_bytes())
    place = content.index(b"cross-gcn") if name == "config.json" else len(content) // 2
    place = content.index(b'"a"') + 1 if name == "preprocess.json" else place
    content[place] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(BadInput, match=rf"{name}: is not what was written"):
        load_model(tmp_path)


def test_what_inputs_and_outputs_mean_comes_back(tmp_path: Path) -> None:
    model = build_model("gcn", 2, 2)
    preprocess = Preprocess(
        ("no", "yes"),
        FeatureSpace(("sex=f", "age"), ("sex", "age")),
        {"columns": [{"name": "sex"}]},
        {"target": "buys"},
    )
    save_model(
        tmp_path / "model",
        model.state_dict(),
        preset="gcn",
        in_channels=2,
        settings={},
        preprocess=preprocess,
    )
    (tmp_path / "copy").mkdir()
    copy_model(tmp_path / "model", tmp_path / "copy")
    assert load_saved(tmp_path / "copy").preprocess == preprocess


@pytest.mark.parametrize("settings", [{"hidden_channels": 6}, {"order": 3}, {"num_layers": 3}])
def test_the_weights_of_another_model_are_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    saved(tmp_path)
    other = build_model("cross-gcn", 24, 3, **{"hidden_channels": 5, **settings})
    safetensors.torch.save_file(other.state_dict(), tmp_path / "model.safetensors")
    rehash(tmp_path)
    with pytest.raises(BadInput, match=r"model\.safetensors: .* belongs to another model"):
        load_model(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("config.json", b"{", "is not valid JSON"),
        ("config.json", b"[]", "is not what was written"),
        ("config.json", b'{"format": 2}', "is not what was written"),
        ("preprocess.json", b"\xff\xfe", "is not what was written"),
        ("preprocess.json", b'{"format": 2}', "is not what was written"),
    ],
)
def test_a_damaged_description_is_named(
    name: str, content: bytes, complaint: str, tmp_path: Path
) -> None:
    saved(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=complaint) as error:
        load_model(tmp_path)
    assert str(tmp_path) in str(error.value) and name in str(error.value)


def test_a_failed_save_leaves_the_old_model(
    tmp_path: Path, small_graph: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = saved(tmp_path)
    monkeypatch.setattr("os.fsync", lambda descriptor: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        saved(tmp_path, "gcn")
    loaded = load_model(tmp_path)
    assert torch.equal(
        loaded(small_graph.x, small_graph.edge_index), model(small_graph.x, small_graph.edge_index)
    )
    assert len(list(tmp_path.iterdir())) == 3
