"""The rows' part of a run in ONNX, checked with onnxruntime."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest_fixtures import Command, result_of

from crossgcn.data.relations import relations_of
from crossgcn.experiments.predict import score_nodes
from crossgcn.experiments.run_folder import open_run
from crossgcn.graph.hops import HopColumns
from crossgcn.models.cross_hops import CrossHops

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("order", [1, 3])
def test_onnxruntime_computes_the_scores_of_predict(crossgcn: Command, order: int) -> None:
    short = ("--num-splits", "1", "--epochs", "2", "--bags", "2", "--columns", "8")
    train = ("train", "us-county", "--target", "winner", "--order", order, "--out", "run", *short)
    result_of(crossgcn(*train, "--json"))
    done = result_of(crossgcn("export", "run", "--onnx", "--out", "score.onnx", "--json"))
    run = open_run(Path("run"))
    model, data = run.saved.model, run.data
    assert isinstance(model, CrossHops)
    labels = run.labels(model)
    assert labels is not None
    hops = HopColumns(data.x, relations_of(data), smoothing=model.smoothing)
    columns = hops.with_labels(labels)[:, model.is_read].double().numpy()
    session = runtime.InferenceSession("score.onnx", providers=["CPUExecutionProvider"])
    names = session.get_modelmeta().custom_metadata_map
    assert json.loads(names["columns"]) == done["columns"]
    assert json.loads(names["scores"]) == list(run.saved.preprocess.classes)
    (scores,) = session.run(None, {"columns": columns})
    np.testing.assert_allclose(scores, score_nodes(run)[0].numpy(), atol=1e-6)
