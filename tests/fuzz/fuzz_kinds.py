"""The kinds of files that are damaged, and what a user does with them."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import torch
from conftest_fixtures import make_small_graph, run_command
from damage import damage_folder, edit_array, edit_json
from planetoid_files import write_toy
from safetensors import safe_open
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from safetensors.torch import save as save_torch_tensors
from torch_geometric.data import Data

from crossgcn.data import load_dataset, read_planetoid, seals
from crossgcn.data.datasets import registry
from crossgcn.data.files import read_npz, write_json, write_npz
from crossgcn.data.graph_file import save_graph
from crossgcn.data.stored import format as stored_format
from crossgcn.data.tables.graph import load_tables
from crossgcn.data.tables.plan import TableChoices
from crossgcn.errors import CrossGCNError
from crossgcn.training import checkpoints
from crossgcn.training.records import describe_dataset, digest

QUICK = ("--epochs", 2, "--workers", 1, "--out", "out", "--num-splits", 1)
BATCHES = ("--batch-size", 16, "--fanout", 4)
OWN = ("files/nodes.csv", "files/edges.csv", "--target", "kind")

Answer = tuple[int, str]
Asks = tuple[Callable[[], Answer], ...]


def ask(*arguments: object, files: tuple[str, ...] = ()) -> Answer:
    """Run a command; return its exit code, and what it printed or a hash of what it wrote."""
    shutil.rmtree("out", ignore_errors=True)
    done = run_command(*arguments)
    if "Traceback" in done.stderr:
        raise AssertionError(done.stderr)
    if done.returncode:
        return done.returncode, done.stderr or done.stdout
    written = [hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in files]
    return 0, " ".join(written) if files else done.stdout


def trained(*arguments: object) -> Answer:
    """Train; return a hash of the weights."""
    return ask("train", *arguments, *QUICK, files=("out/model.safetensors",))


def read(reader: Callable[[], Data]) -> Answer:
    """Read a graph; return a hash of it. The command line catches the same errors."""
    try:
        data = reader()
    except CrossGCNError as error:
        return error.exit_code, str(error)
    except OSError as error:
        return 1, str(error)
    parts = [data.get(name) for name in ("edge_index", "edge_weight", "y", "roles")]
    return 0, describe_dataset(data)["sha256"] + digest(
        *(each for each in parts if each is not None)
    )


def mostly(reader: Callable[[], Answer], *commands: Callable[[], Answer]) -> Asks:
    """Ask the reader, and each of the commands once in twenty times."""
    return (*[reader] * (20 - len(commands)), *commands)


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        make: Writes the files to the folder ``files``, and others beside it.
        asks: What a user does with them, in turn.
        damage: Changes the files.
        has_checksums: Whether a change must be noticed.
        mutations: How many there are in all.
    """

    make: Callable[[], None]
    asks: Asks
    damage: Callable[[Random], object] = lambda random: damage_folder(Path("files"), random)
    has_checksums: bool = True
    mutations: int = 2000


def make_graph_file() -> None:
    save_graph("files/small.npz", make_small_graph())


def make_run() -> None:
    save_graph("small.npz", make_small_graph())
    code, said = ask("train", "small.npz", "--splits", "public", *QUICK)
    assert code == 0, said
    shutil.copytree("out", "files", dirs_exist_ok=True)


def predicted(run: str) -> Answer:
    return ask("predict", run, "--out", "out.csv", files=("out.csv",))


def ask_run() -> Asks:
    def report() -> Answer:
        return ask("report", "files", "--out", "out.html", files=("out.html",))

    def explain() -> Answer:
        return ask("explain", "files", "--json")

    predict = partial(predicted, "files")
    return (*[predict] * 9, explain, *[predict] * 9, report)


def make_tables() -> None:
    random = np.random.default_rng(0)
    kinds = random.integers(0, 3, 60)
    frame = {
        "id": [f"n{node}" for node in range(60)],
        "colour": np.array(["red", "green", "blue"])[(kinds + (random.random(60) < 0.3)) % 3],
        "size": np.round(kinds + random.normal(size=60), 2),
        "since": [f"20{10 + node % 12}-0{1 + node % 9}-11" for node in range(60)],
        "kind": np.array(["x", "y", "z"])[kinds],
    }
    ends = random.integers(0, 60, (2, 150))
    edges = {"from": [f"n{node}" for node in ends[0]], "to": [f"n{node}" for node in ends[1]]}
    weights = {"weight": np.round(random.random(150), 2)}
    pd.DataFrame(frame).to_csv("files/nodes.csv", index=False)
    pd.DataFrame(edges | weights).to_csv("files/edges.csv", index=False)


def make_parquet() -> None:
    make_tables()
    for name in ("nodes", "edges"):
        pd.read_csv(f"files/{name}.csv").to_parquet(f"files/{name}.parquet")
        Path(f"files/{name}.csv").unlink()


def ask_tables(ending: str) -> Asks:
    nodes, edges, *target = (str(each).replace(".csv", ending) for each in OWN)
    choices = TableChoices(target="kind")
    imported = ("data", "import", edges, "--nodes", nodes, *target, "--out", "out")
    return mostly(
        partial(read, lambda: load_tables(nodes, edges, choices).data),
        partial(ask, "check", nodes, edges, *target, "--json"),
        *[partial(ask, *imported, files=("out/graph.json",))] * 3,
        partial(trained, nodes, edges, *target, "--model", "cross-gcn"),
    )


def make_graph_folder() -> None:
    # Small blocks, so that some are read and some are not.
    seals.BLOCK = stored_format.BLOCK = 512  # type: ignore[attr-defined]
    make_tables()
    Path("files").rename("tables")
    nodes, edges, *target = (str(each).replace("files", "tables") for each in OWN)
    run = ask("data", "import", edges, "--nodes", nodes, *target, "--out", "files")
    run = run if run[0] else trained("files", "--model", "cross-gcn", "--splits", "stratified")
    assert run[0] == 0, run
    shutil.copytree("out", "run", dirs_exist_ok=True)


def ask_graph_folder() -> Asks:
    predict, stratified = partial(predicted, "run"), ("--splits", "stratified")
    train = partial(trained, "files", "--model", "cross-gcn", *stratified)
    in_batches = partial(train, *BATCHES)
    return (
        *(predict, train, in_batches) * 3,
        partial(ask, "data", "show", "files", "--verify"),
        partial(ask, "explain", "run", "--json"),
    )


def make_planetoid() -> None:
    folder = Path("files/planetoid")
    folder.mkdir()
    write_toy(folder)
    for path in list(folder.iterdir()):
        name = f"planetoid/{path.name.replace('toy', 'cora')}"
        registry.REGISTRY[name] = str(seals.digest_of_file(path))
        path.rename(f"files/{name}")
    os.environ[registry.ENVIRONMENT_VARIABLE] = "files"


def ask_planetoid() -> Answer:
    return ask("data", "get", "cora", "--out", "out", files=("out/cora.npz",))


def make_toy() -> None:
    write_toy(Path("files"))


def make_graphsage() -> None:
    random = np.random.default_rng(0)
    nodes = [{"id": f"t{node}", "val": node % 5 == 3, "test": node % 5 == 4} for node in range(60)]
    ends = random.integers(60, size=(120, 2)).tolist()
    links = [{"source": source, "target": target} for source, target in ends]
    graph = {"directed": False, "nodes": nodes, "links": links, "multigraph": False}
    ids = {f"t{node}": row for node, row in enumerate(random.permutation(60).tolist())}
    classes = {f"t{node}": node % 3 for node in range(60)}
    for name, content in (("G", graph), ("id_map", ids), ("class_map", classes)):
        Path(f"files/own-{name}.json").write_text(json.dumps(content))
    np.save("files/own-feats.npy", random.normal(3.0, 5.0, (60, 4)))


ask_graphsage = mostly(
    partial(read, lambda: load_dataset("files/own-G.json")),
    partial(trained, "files/own-G.json", "--splits", "public", "--model", "cross-gcn"),
)


def make_checkpoint() -> None:
    """A training in batches that was stopped after its second epoch."""
    save_graph("small.npz", make_small_graph())
    save = checkpoints.Checkpoint.save

    def stop(self: checkpoints.Checkpoint, epoch: int, *states: Any) -> None:
        save(self, epoch, *states)
        if epoch == 2:
            raise KeyboardInterrupt

    checkpoints.Checkpoint.save = stop  # type: ignore[assignment,method-assign]
    try:
        assert ask("train", "small.npz", *resumed("run"))[0] == 130
    finally:
        checkpoints.Checkpoint.save = save  # type: ignore[method-assign]
    (path,) = Path("run").rglob(checkpoints.CHECKPOINT)
    path.rename(f"files/{path.name}")
    Path("place").write_text(str(path.relative_to("run")))


def resumed(out: str) -> tuple[object, ...]:
    settings = ("--splits", "public", "--model", "cross-gcn", "--epochs", 4, *BATCHES)
    return (*settings, "--workers", 1, "--out", out)


def read_checkpoint() -> Answer:
    """Continue from the file into tensors of the right shapes."""
    with safe_open(Path("sound", checkpoints.CHECKPOINT), "pt") as file:
        identity = json.loads(file.metadata()["run"])
        names = list(file.keys())
        state = {name: torch.zeros_like(file.get_tensor(name)) for name in names}
    parts: dict[str, dict[str, torch.Tensor]] = {"step": {}, "selection": {}}
    for name, tensor in state.items():
        part, _, own = name.partition(".")
        parts[part][own] = tensor
    path = Path("files", checkpoints.CHECKPOINT)
    try:
        if path.exists():  # a removed file is no checkpoint
            checkpoints.Checkpoint(path, identity).load(parts["step"], parts["selection"])
            return 0, digest(*(state[name] for name in sorted(state)))
        return 2, "no checkpoint"
    except CrossGCNError as error:
        return error.exit_code, str(error)


def ask_checkpoint() -> Answer:
    shutil.rmtree("again", ignore_errors=True)
    place = Path("again", Path("place").read_text())
    place.parent.mkdir(parents=True)
    with suppress(OSError, StopIteration):  # a removed file is no checkpoint
        next(Path("files").iterdir()).rename(place)
    weights = ("again/model.safetensors",)
    return ask("train", "small.npz", *resumed("again"), "--resume", files=weights)


# ------------------------------------------------------- the same, with checksums computed again


def edit_npz(path: Path, random: Random) -> None:
    arrays = read_npz(path)
    name = random.choice(sorted(arrays))
    if random.random() < 0.1:
        del arrays[name]
    else:
        arrays[name] = edit_array(arrays[name], random)
    write_npz(path, arrays)


def edit_tensors(content: bytes, random: Random) -> dict[str, Any]:
    tensors = load_tensors(content)
    name = random.choice(sorted(tensors))
    if random.random() < 0.1:
        del tensors[name]
    else:
        tensors[name] = np.ascontiguousarray(edit_array(tensors[name], random))
    allowed = ("f", "i", "u", "b")
    return {
        name: each
        for name, each in tensors.items()
        if each.dtype.kind in allowed and each.dtype.isnative
    }


def edit_run(random: Random) -> None:
    root = Path("files")
    place = root / json.loads((root / "chosen.json").read_bytes())["run"]
    path = random.choice(
        [
            *(place / name for name in ("config.json", "preprocess.json", "run.json")),
            *(root / name for name in ("chosen.json", "nodes.json", "result.json")),
            *(root / name for name in ("splits.npz", "graph.npz")),
            place / "model.safetensors",
        ]
    )
    if path.suffix == ".json":
        write_json(path, edit_json(json.loads(path.read_bytes()), random))
    elif path.suffix == ".npz":
        edit_npz(path, random)
    else:
        path.write_bytes(save_tensors(edit_tensors(path.read_bytes(), random)))
    # The last of these hold hashes of the others.
    with suppress(AttributeError, KeyError, TypeError):
        seal(place / "config.json", place)
        for name in checkpoints.MODEL_FILES:
            shutil.copyfile(place / name, root / name)
        seal(place / "run.json", place)
        seal(root / "result.json", root)
        seal(root / "chosen.json", root)


def seal(path: Path, folder: Path) -> None:
    content = json.loads(path.read_bytes())
    content.pop("sha256", None)
    if "files" in content:
        content["files"] = seals.digests_of_files(folder, content["files"])
    write_json(path, seals.add_checksum(content))


def edit_graph_folder(random: Random) -> None:
    page = json.loads(Path("files/graph.json").read_bytes())
    name = random.choice(["graph.json", *sorted(page["files"])])
    path = Path("files", name)
    if name == "graph.json":
        page = edit_json(page, random)
    else:
        if path.suffix == ".json":
            write_json(path, edit_json(json.loads(path.read_bytes()), random))
        else:
            array = edit_array(np.load(path), random)
            np.save(path, array)
            page["files"][name] |= {"dtype": array.dtype.str, "shape": list(array.shape)}
        blocks = seals.BlockChecksums()
        blocks.update(path.read_bytes())
        about = {"bytes": path.stat().st_size, "sha256": seals.digest_of_file(path)}
        page["files"][name] |= about | {"blocks": blocks.finish()}
    if isinstance(page, dict):
        page.pop("sha256", None)
        page = seals.add_checksum(page)
    write_json(Path("files/graph.json"), page)


def edit_checkpoint(random: Random) -> None:
    path = Path("files", checkpoints.CHECKPOINT)
    with safe_open(path, "np") as file:
        run = file.metadata()["run"]
    if random.random() < 0.5:
        run = json.dumps(edit_json(json.loads(run), random))
    edited = edit_tensors(path.read_bytes(), random)
    tensors = {name: torch.from_numpy(each) for name, each in edited.items()}
    header = {"run": run, "sha256": checkpoints._digest(run, tensors)}
    with suppress(UnicodeEncodeError):  # half a character cannot be written at all
        path.write_bytes(save_torch_tensors(tensors, header))


ask_npz = mostly(
    partial(read, lambda: load_dataset("files/small.npz")),
    partial(trained, "files/small.npz", "--splits", "public"),
)
ask_point = mostly(read_checkpoint, ask_checkpoint)
ask_toy = partial(read, lambda: read_planetoid(Path("files"), "toy"))
ask_cora = mostly(partial(read, lambda: load_dataset("cora")), ask_planetoid)

KINDS = {
    "run folder": Kind(make_run, ask_run()),
    "graph folder": Kind(make_graph_folder, ask_graph_folder()),
    "npz": Kind(make_graph_file, ask_npz),
    "Planetoid": Kind(make_planetoid, ask_cora),
    "GraphSAGE": Kind(make_graphsage, ask_graphsage),
    "resume point": Kind(make_checkpoint, ask_point),
    "Parquet": Kind(make_parquet, ask_tables(".parquet"), has_checksums=False),
    "CSV": Kind(make_tables, ask_tables(".csv"), has_checksums=False),
    "Planetoid without checksums": Kind(make_toy, (ask_toy,), has_checksums=False, mutations=500),
    "GraphSAGE without checksums": Kind(
        make_graphsage, ask_graphsage, has_checksums=False, mutations=500
    ),
    "run folder, resealed": Kind(make_run, ask_run(), edit_run, False, 500),
    "graph folder, resealed": Kind(
        make_graph_folder, ask_graph_folder(), edit_graph_folder, False, 500
    ),
    "npz, resealed": Kind(
        make_graph_file,
        ask_npz,
        lambda random: edit_npz(Path("files/small.npz"), random),
        False,
        500,
    ),
    "resume point, resealed": Kind(make_checkpoint, ask_point, edit_checkpoint, False, 500),
}
"""By name. Without checksums, or with new ones, another value is another file, not damage."""
