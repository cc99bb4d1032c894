"""Render the results on the example shop as Markdown."""

from __future__ import annotations

from typing import Any

from crossgcn.reports.format import markdown_table, paired_text, with_spread

Shop = dict[str, Any]


def shop_answer_markdown(shop: Shop) -> str:
    """Render one draw: both answers of ``compare`` and the strongest crosses."""
    header = ["class", "strongest crosses", "strength", "nodes", "in runs", "planted"]
    rows = [
        [
            cross["class"],
            f"`{cross['cross']}`",
            f"{cross['strength']:+.2f}",
            f"{cross['support']:,}",
            f"{cross['stability']:.0%}",
            "yes" if cross["cross"] == shop["planted"][cross["class"]] else "",
        ]
        for cross in shop["strongest"]
    ]
    return "\n\n".join(
        [
            f"`compare`: *{' '.join(shop['crosses']['answer'])}*",
            f"and with `--no-crosses`: *{' '.join(shop['no_crosses']['answer'])}*",
            "`explain`:",
            markdown_table(header, rows),
        ]
    )


def shop_seeds_markdown(shops: list[Shop]) -> str:
    """Render all draws: every model with and without planted crosses, and their ranks."""
    parts = []
    for key, title in (("crosses", "Crosses planted"), ("no_crosses", "None planted")):
        names = [model["model"] for model in shops[0][key]["models"]]
        header = ["seed", *names, "judged", "crosses help?"]
        rows = [[str(shop["seed"]), *_cells(shop[key])] for shop in shops]
        parts += [f"{title}, test accuracy in %:", markdown_table(header, rows)]
    ranks = [rank for shop in shops for rank in shop["rank"].values()]
    found = sum(rank is not None and rank <= 5 for rank in ranks)
    first = sum(rank == 1 for rank in ranks)
    parts.append(
        f"The planted cross is among the five strongest of its class in {found} of {len(ranks)} "
        f"cases, and the strongest in {first}."
    )
    return "\n\n".join(parts)


def _cells(summary: dict[str, Any]) -> list[str]:
    models = {model["model"]: model for model in summary["models"]}
    means = [
        with_spread(100 * model["mean"], None if model["sd"] is None else 100 * model["sd"])
        for model in models.values()
    ]
    ours = models[summary["with_crosses"]]
    judged = f"{ours['model']} − {summary['without_crosses']}: {paired_text(ours)}"
    return [*means, judged, "yes" if summary["crosses_help"] else "no"]
