from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from conftest_fixtures import Command

from crossgcn.data.datasets.catalogue import CATALOGUE, REGISTRY


def assert_refused(done: CompletedProcess[str], *fragments: str) -> None:
    assert done.returncode == 2, done.stderr
    for fragment in fragments:
        assert fragment in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        ("trian", ("No such command 'trian'", "Did you mean 'train'")),
        ("train citeser", ("unknown dataset 'citeser'", "did you mean 'citeseer'")),
        ("train --epcohs 3", ("no option --epcohs", "did you mean '--epochs'")),
        ("train --epochs many", ("--epochs", "valid integer")),
        ("train --splits rnadom", ("splits", "'rnadom'", "random")),
        (
            "train citeseer cora",
            ("cora is one argument too many: citeseer is not a table", "NODES.csv and EDGES.csv"),
        ),
        ("train --target y", ("--target y is one argument too many", "in place of citeseer")),
        ("train nodes.csv edges.csv", ("nodes.csv is a table", "--target COLUMN")),
        ("train cora", ("cora is not on this machine", "CROSSGCN_DATA", "crossgcn data get cora")),
        ("train --splits authors", ("authors' splits of citeseer", "CROSSGCN_DATA", "--splits")),
        ("train absent.npz", ("absent.npz: no such file", "check the path")),
        ("train --config absent.toml", ("absent.toml: cannot be read", "check the path")),
        ("train --resume", ("--resume needs --out",)),
    ],
)
def test_usage(arguments: str, fragments: tuple[str, ...], crossgcn: Command) -> None:
    assert_refused(crossgcn(*arguments.split()), *fragments)


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        ("--model gnc", ("unknown model 'gnc'", "did you mean", "'gcn'")),
        ("--order 0", ("order must be a whole number of at least 1", "got 0")),
        ("--order -1", ("order must be a whole number of at least 1", "got -1")),
        ("--order x", ("order cannot be 'x'", "one per layer (2,1)")),
        ("--order 2,", ("order cannot be '2,'", "one per layer")),
        ("--order 2,1,1", ("order=[2, 1, 1] names 3 layers", "give one order for all")),
        ("--order 99999999999999999999", ("cannot be made", "lower hidden_channels")),
        ("--order-weights 1,2,3", ("2 finite numbers, one per order", "(1.0, 2.0")),
        ("--order-weights 1,nan", ("order_weights cannot be '1,nan'", "one number per order")),
        ("--order-weights 1,x", ("order_weights cannot be '1,x'", "one number per order")),
        ("--order-weights gatde", ("order_weights cannot be 'gatde'", "gated")),
        ("--model gcn --order 2", ("model 'gcn' has no option 'order'", "it takes bias")),
        ("--set precision=fp8", ("precision should be", "'fp8'", "bf16")),
        ("--num-layers 0", ("num_layers should be greater than or equal to 1; got 0",)),
        ("--hidden-channels 0", ("hidden_channels should be greater than or equal to 1; got 0",)),
        ("--hidden-channels 999999999999", ("cannot be made", "lower hidden_channels")),
        ("--dropout 1.0", ("dropout should be less than 1; got 1.0",)),
        ("--dropout nan", ("dropout should be", "got nan")),
        ("--epochs 0", ("epochs should be greater than or equal to 1; got 0",)),
        ("--set learning_rate=-0.1", ("learning_rate should be greater than 0; got -0.1",)),
        ("--set weight_decay=-1", ("weight_decay should be greater than or equal to 0; got -1",)),
        (
            "--train 0",
            ("train must be a whole number of at least 1 (nodes per class, or 'all'); got 0",),
        ),
        ("--train some", ("train cannot be 'some'", "per class, or all")),
        ("--train 11", ("class 0 has 10 labelled nodes", "11 are asked for", "lower --train")),
        ("--num-splits 0", ("num_splits should be greater than or equal to 1; got 0",)),
        ("--set batch_size=0", ("batch_size should be greater than or equal to 1; got 0",)),
        ("--seed -1", ("seed should be greater than or equal to 0; got -1",)),
        ("--seed 99999999999999999999", ("seed should be less than 4294967296; got 9999",)),
        ("--splits authors --train 20", ("released no splits for 'small'", "--splits random")),
        ("--splits authors", ("train is 5", "their own training nodes", "--splits random")),
        ("--splits public", ("train is 5", "their own training nodes", "--splits random")),
        ("--threads 0", ("'--threads'", "greater than or equal to 1")),
        ("--workers 0", ("'--workers'", "greater than or equal to 1")),
    ],
)
def test_settings(
    options: str, fragments: tuple[str, ...], crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    tiny = ("--train", "5", "--epochs", "2", "--workers", "1", "--out", "out")
    assert_refused(crossgcn("train", graph_file, *tiny, *options.split()), *fragments)
    assert not (tmp_path / "out").exists()


def broken(arrays: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {name: value for name, value in (arrays | changes).items() if value is not None}


def damage_edges(arrays: dict[str, Any]) -> dict[str, Any]:
    arrays["edge_index"][1, 7] = 90
    return arrays


def damage_features(arrays: dict[str, Any]) -> dict[str, Any]:
    arrays["x_data"][0] = np.nan
    return arrays


def damage_a_class(arrays: dict[str, Any]) -> dict[str, Any]:
    arrays["y"][(arrays["y"] == 2) & (arrays["roles"][0] == 1)] = 0
    return arrays


def overlapping_masks(arrays: dict[str, Any]) -> dict[str, Any]:
    roles = arrays.pop("roles")[0]
    masks = {name: roles == i for i, name in enumerate(("train_mask", "val_mask", "test_mask"), 1)}
    masks["test_mask"][4] = True
    return arrays | masks


@pytest.mark.parametrize(
    ("damage", "fragments"),
    [
        (damage_edges, ("edge_index[1, 7] is 90", "use 0 to 89")),
        (damage_features, ("x row 0, column 0 is nan", "finite numbers")),
        (damage_a_class, ("class 2", "training node")),
        (overlapping_masks, ("node 4 is in train_mask and in test_mask", "one role")),
        (lambda a: broken(a, y=a["y"][:-1]), ("y is int64 [89]", "it must be int64 [90]")),
        (lambda a: broken(a, y=None), ("y is missing", "it must be int64")),
        (lambda a: broken(a, roles=None), ("has no roles", "add roles")),
        (lambda a: broken(a, roles=a["roles"] + 1), ("is 4", "use 0 none, 1 train")),
        (lambda a: broken(a, roles=a["roles"] % 2), ("no validation nodes", "give at least one")),
        (lambda a: broken(a, y=a["y"] - 3), ("labels are 0, 1, 2",)),
        (lambda a: broken(a, num_classes=2), ("y[2] is 2", "num_classes is 2: raise it")),
        (lambda a: broken(a, y=a["y"].astype(str)), ("y is <U", "it must be numbers")),
    ],
)
def test_a_graph_that_cannot_be_trained_on(
    damage: Callable[[dict[str, Any]], dict[str, Any]],
    fragments: tuple[str, ...],
    crossgcn: Command,
    graph_file: Path,
) -> None:
    with np.load(graph_file) as archive:
        arrays = dict(archive)
    np.savez(graph_file, **damage(arrays))
    done = crossgcn("train", graph_file, "--splits", "public", "--epochs", 1)
    assert_refused(done, "small", *fragments)


@pytest.mark.parametrize("length", [0, 10, 300, -30])
def test_a_graph_file_cut_short(length: int, crossgcn: Command, graph_file: Path) -> None:
    graph_file.write_bytes(graph_file.read_bytes()[:length])
    assert_refused(crossgcn("train", graph_file), f"{graph_file}: ", "write it")


def test_a_planetoid_file_that_is_not_the_one_expected(
    crossgcn: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planetoid").mkdir()
    for path in CATALOGUE["cora"].files:
        (tmp_path / path).write_bytes(b"almost")
    monkeypatch.setenv("CROSSGCN_DATA", str(tmp_path))
    assert_refused(
        crossgcn("train", "cora"),
        str(tmp_path / "planetoid" / "ind.cora.x"),
        REGISTRY["planetoid/ind.cora.x"],
        hashlib.sha256(b"almost").hexdigest(),
        "get it again",
    )


def test_a_data_folder_that_is_none(crossgcn: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSGCN_DATA", "/no/such/folder")
    for command in (("train", "cora"), ("data", "list")):
        assert_refused(
            crossgcn(*command), "CROSSGCN_DATA is '/no/such/folder'", "correct or unset it"
        )


@pytest.mark.parametrize("out", ["file", "file/below"])
def test_out_where_no_folder_can_be(
    out: str, crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for resume in ((), ("--resume",)):
        done = crossgcn("train", graph_file, "--train", 5, "--out", out, *resume)
        assert_refused(done, out, "give another --out")


@pytest.mark.parametrize(
    ("text", "fragments"),
    [
        ("epoch = 3", ("run.toml", "'epoch'", "did you mean 'epochs'")),
        ("epochs = ", ("run.toml: is not valid TOML",)),
        ('epochs = "many"', ("epochs should be a valid integer", "'many'")),
        ('train = "some"', ("train cannot be 'some'",)),
        ("train = 0", ("train must be", "at least 1 (nodes per class, or 'all')")),
        ("order = [2, 0]", ("order must be a whole number of at least 1", "got 0")),
        ("order = []", ("names 0 layers",)),
        (
            'splits = "all"',
            ("splits should be 'random', 'authors', 'public', 'stratified' or 'time'; got 'all'",),
        ),
        ("[model]\nname = 1", ("model should be a valid string",)),
    ],
)
def test_a_settings_file(
    text: str, fragments: tuple[str, ...], crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    if "train" not in text:
        text = f"train = 5\n{text}"
    (tmp_path / "run.toml").write_text(text)
    assert_refused(crossgcn("train", graph_file, "--config", "run.toml"), *fragments)


def test_bad_input_with_json_is_an_object_too(crossgcn: Command) -> None:
    done = crossgcn("train", "citeser", "--json")
    assert_refused(done, "unknown dataset 'citeser'")
    answer = json.loads(done.stdout)
    assert answer["exit_code"] == 2 and "did you mean 'citeseer'" in answer["error"]
