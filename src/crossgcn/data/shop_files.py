"""The example shop as files in a folder, with a page that explains them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from jinja2 import Environment, PackageLoader, StrictUndefined

from crossgcn.data.atomic_file import replacing
from crossgcn.data.shop import Shop
from crossgcn.data.shop_columns import CLASSES, OWN_TAGS, PLANTED
from crossgcn.data.tables.export import write_table
from crossgcn.errors import BadInput

__all__ = ["FileFormat", "describe_shop", "write_shop"]

FileFormat = Literal["csv", "parquet"]


def write_shop(folder: Path, shop: Shop, file_format: FileFormat = "csv") -> tuple[Path, ...]:
    """Write the tables and ``README.md``, each whole or not at all, the page last.

    Args:
        folder: Where; made if it is not there, and refused if it holds anything.
        shop: What to write.
        file_format: Of the tables.

    Returns:
        The files, in the order of the page.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} is there and not empty: give a folder that is new or empty")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"{folder}: cannot be made ({error.strerror}); give another folder"
        ) from None
    tables = {
        "nodes": shop.nodes,
        "edges": shop.edges,
        "new_nodes": shop.new_nodes,
        "new_edges": shop.new_edges,
        "new_answers": shop.new_answers,
    }
    paths = {name: folder / f"{name}.{file_format}" for name in tables}
    for name, frame in tables.items():
        write_table(paths[name], frame)
    page = folder / "README.md"
    with replacing(page) as file:
        file.write(describe_shop(shop, file_format).encode())
    return (*paths.values(), page)


def describe_shop(shop: Shop, file_format: FileFormat = "csv") -> str:
    """What is in the tables, what was planted, and which commands to run, as Markdown.

    Args:
        shop: What was written.
        file_format: Of the tables.
    """
    environment = Environment(
        loader=PackageLoader("crossgcn.data", "."),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    tags = [f"{buys} ({' and '.join(words)})" for buys, words in OWN_TAGS.items()]
    members = [f"`{member}`" for cross in PLANTED for member in cross.members]
    ids = shop.nodes["customer"]
    return environment.get_template("shop_readme.md").render(
        suffix=file_format,
        num_nodes=f"{len(shop.nodes):,}",
        num_unlabelled=int(shop.nodes["buys"].isna().sum()),
        num_edges=f"{len(shop.edges):,}",
        num_new=f"{len(shop.new_nodes):,}",
        num_new_edges=f"{len(shop.new_edges):,}",
        classes=_list(list(CLASSES), "or"),
        crosses=shop.crosses,
        tags=_list(tags, "or"),
        members=_list(members, "and"),
        one_customer="u_881" if (ids == "u_881").any() else ids.iloc[-1],
    )


def _list(words: list[str], last: str) -> str:
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
