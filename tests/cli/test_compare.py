from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest_fixtures import Command, result_of

TINY = ("--epochs", 3, "--num-splits", 3, "--train", 5, "--hidden-channels", 4, "--workers", 1)


def test_json_pairs_every_model_with_the_baseline(crossgcn: Command, graph_file: Path) -> None:
    done = crossgcn(
        *("compare", graph_file, "--models", "mlp, gcn,cross-gcn,gcn", "--baseline", "gcn"),
        *(*TINY, "--num-layers", "1,2", "--json", "--out", "out"),
    )
    result = result_of(done)
    assert result.keys() >= {
        *("dataset", "models", "splits", "baseline"),
        *("epochs", "seconds", "versions", "threads", "commit"),
    }
    assert [(model["model"], model["num_layers"]) for model in result["models"]] == [
        (name, depth) for depth in (1, 2) for name in ("mlp", "gcn", "cross-gcn")
    ]
    for mlp, gcn, cross in (result["models"][:3], result["models"][3:]):
        assert gcn["paired_difference"] is None
        for model in (mlp, cross):
            changes = [
                ours - theirs
                for ours, theirs in zip(model["test_accuracy"], gcn["test_accuracy"], strict=True)
            ]
            assert model["paired_difference"] == pytest.approx(sum(changes) / 3)
            assert model["paired_se"] is not None


def test_a_person_gets_a_table_and_a_verdict(crossgcn: Command, graph_file: Path) -> None:
    done = crossgcn("compare", graph_file, *TINY, "--out", "out")
    assert done.returncode == 0, done.stderr
    assert "gain over gcn" in done.stdout
    assert "cross-gcn (2 layers)" in done.stdout and "95 % interval" in done.stdout


def test_training_in_a_comparisons_folder_adds_the_weights(
    crossgcn: Command, graph_file: Path, tmp_path: Path
) -> None:
    compared = result_of(crossgcn("compare", graph_file, *TINY, "--json", "--out", "out"))
    assert not list(tmp_path.rglob("model.safetensors"))
    arguments = ("train", graph_file, "--model", "gcn", *TINY, "--json", "--out", "out")
    trained = result_of(crossgcn(*arguments, "--resume"))
    assert trained["test_accuracy"] == compared["models"][0]["test_accuracy"]
    assert len(list(tmp_path.rglob("model.safetensors"))) == 4


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        (("--models", "gcn,gni"), ("unknown model 'gni'", "did you mean 'gin'")),
        (("--models", " , "), ("--models takes names", "' , '")),
        (("--baseline", "mlp"), ("--baseline mlp is not among", "add it there")),
        (("--baseline", "mpl"), ("unknown model 'mpl'", "did you mean 'mlp'")),
        (("--num-layers", "one"), ("num_layers should be a valid integer", "'one'")),
        (("--num-layers", "0"), ("num_layers should be greater than or equal to 1", "got 0")),
        (("--order", "2,1", "--num-layers", "1,2"), ("names 2 layers, but num_layers is 1",)),
        (
            ("--models", "gcn,mlp", "--set", "order_weights=learned"),
            ("order_weights has no effect: gcn and mlp do not have it", "(cross-gcn,"),
        ),
        (("--hops", "4"), ("hops has no effect", "(cross-hops, mlp-hops")),
        (("--config", "x.toml"), ("there is no option --config",)),
    ],
)
def test_bad_comparisons_are_exit_code_2(
    options: tuple[str, ...], fragments: tuple[str, ...], crossgcn: Command, graph_file: Path
) -> None:
    done = crossgcn("compare", graph_file, "--train", 5, *options)
    assert done.returncode == 2
    for fragment in fragments:
        assert fragment in done.stderr
    assert "Traceback" not in done.stderr


def test_details_of_a_model_reach_the_models_that_have_them(
    crossgcn: Command, graph_file: Path
) -> None:
    chosen = ("order_weights=fixed", "bias=true")
    details = ("--order", 3, *(word for each in chosen for word in ("--set", each)))
    models = ("--models", "gcn,cross-gcn-paper")
    done = crossgcn("compare", graph_file, *TINY, *models, *details, "--json", "--out", "out")
    plain, cross = json.loads(done.stdout)["models"]
    assert (plain["order"], plain["order_weights"], plain["bias"]) == (None, None, True)
    assert (cross["order"], cross["order_weights"], cross["bias"]) == (3, "fixed", True)
