"""The model of a row as an ONNX graph: from columns that are ready-made to scores."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from crossgcn import __version__
from crossgcn.errors import BadInput
from crossgcn.experiments.run_folder import RunFolder
from crossgcn.explanation.api import names_of_run
from crossgcn.explanation.columns import hop_columns
from crossgcn.explanation.polynomial import as_array, read_hops
from crossgcn.export.scores import read_model

OPSET = 17


def export_onnx(run: RunFolder) -> tuple[bytes, list[str]]:
    """Return an ONNX graph from columns, float64 ``[rows, columns]``, to scores, and their names.

    The columns are those that the model reads, as ``crossgcn hops`` writes them; the graph clips
    and standardises them. ``scores`` has a column per class, before the softmax, or one number.
    The names are in the metadata, as JSON: ``columns`` and ``scores``.

    Raises:
        BadInput: If the model is not a cross-hops model, or onnx is not installed.
    """
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError as error:
        raise BadInput(f"this needs onnx ({error}); pip install 'crossgcn[onnx]'") from None

    model, names = read_model(run, "ONNX"), names_of_run(run)
    kept = np.flatnonzero(model.is_read.numpy())
    titles = {
        int(place): title
        for column in hop_columns(model, names)
        for place, title in zip(column.places, column.features, strict=True)
    }
    polynomial = read_hops(model, np.eye(len(names.classes)))
    units = polynomial.weights.shape[1]
    readout = polynomial.readout.reshape(units, polynomial.bags, -1).mean(axis=1)
    scale = model.scale
    constants = {
        name: as_array(getattr(scale, name))[kept]
        for name in ("low", "high", "center", "deviation")
    }
    constants |= {f"weight_{k}": w[:, kept].T for k, w in enumerate(polynomial.weights)}
    constants |= {f"order_{k}": w for k, w in enumerate(polynomial.order_weights)}
    constants |= {"readout": readout, "bias": polynomial.bias}
    nodes: list[Any] = []

    def add(kind: str, *inputs: str, out: str = "") -> str:
        out = out or f"{kind.lower()}_{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [out]))
        return out

    x = add("Max", add("Min", "columns", "high"), "low")
    x = add("Div", add("Sub", x, "center"), "deviation")
    crosses = ""
    for order in range(polynomial.order - 1, 0, -1):
        inner = add("Add", crosses, f"order_{order}") if crosses else f"order_{order}"
        crosses = add("Mul", add("MatMul", x, f"weight_{order + 1}"), inner)
    hidden = add("MatMul", x, "weight_0")
    if crosses:
        hidden = add("Add", hidden, add("Mul", add("MatMul", x, "weight_1"), crosses))
    add("Add", add("MatMul", hidden, "readout"), "bias", out="scores")
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "crossgcn",
        [helper.make_tensor_value_info("columns", TensorProto.DOUBLE, ["rows", len(kept)])],
        [helper.make_tensor_value_info("scores", TensorProto.DOUBLE, ["rows", len(names.classes)])],
        [numpy_helper.from_array(v, name) for name, v in constants.items() if name in used],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    made.producer_name, made.producer_version = "crossgcn", __version__
    columns = [titles[place] for place in kept.tolist()]
    described = {"columns": columns, "scores": list(names.classes)}
    helper.set_model_props(made, {name: json.dumps(each) for name, each in described.items()})
    checker.check_model(made)
    return made.SerializeToString(deterministic=True), columns
