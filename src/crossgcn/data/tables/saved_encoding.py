"""How tables were encoded, kept with a model so that new tables are encoded alike."""

from __future__ import annotations

from crossgcn.data.preprocess import Preprocess
from crossgcn.data.tables.encoded_hash import EncodedHash
from crossgcn.data.tables.encoder import TableEncoder
from crossgcn.data.tables.graph import TableGraph
from crossgcn.data.tables.plan import TablePlan
from crossgcn.errors import BadInput

__all__ = ["describe_encoding", "read_encoding"]


def describe_encoding(graph: TableGraph) -> Preprocess:
    """What a model trained on the graph should be saved with."""
    return Preprocess(
        graph.classes,
        graph.encoder.space,
        {"plan": graph.plan.to_json(), "encoder": graph.encoder.to_json()},
    )


def read_encoding(preprocess: Preprocess) -> tuple[TableEncoder, TablePlan]:
    """The encoder and the plan of a saved model.

    Raises:
        BadInput: If the model was not trained on tables, or they do not fit it.
    """
    if preprocess.encoding is None or preprocess.space is None:
        raise BadInput(
            "the model was not trained on tables, so nothing says how one is encoded: train it "
            "with crossgcn train NODES EDGES --target COLUMN"
        )
    try:
        plan = TablePlan.from_json(preprocess.encoding["plan"])
        encoder = TableEncoder.from_json(preprocess.encoding["encoder"])
    except KeyError as error:
        raise BadInput(f"the saved encoding has no {error}: train the model again") from None
    if encoder.space != preprocess.space:
        raise BadInput("the saved encoding names other features than the model: train it again")
    bits = {column.bits for column in encoder.columns if isinstance(column, EncodedHash)}
    if bits - {plan.hash_bits}:
        raise BadInput(
            f"the saved encoding hashes into 2^{max(bits)} features a column, but its plan has "
            f"hash_features {plan.hash_features}: train the model again"
        )
    return encoder, plan
