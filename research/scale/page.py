"""The generated parts of ``docs/scale.md`` and ``research/scale/README.md``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from crossgcn.reports.format import markdown_table
from research.benchmarks.catalogue import BENCHMARKS
from research.scale.cluster import (
    FAST,
    SLOW,
    FullBatchCost,
    Job,
    SampledCost,
    full_batch_cost,
    sampled_cost,
    sampled_shape,
    touched_columns,
)
from research.scale.cost_model import KEPT, Fitted, Judged, rms_log
from research.scale.cost_points import gpu_points, measured_memory_rate

BILLION: Final = Job(
    nodes=100_000_000,
    edges=1_000_000_000,
    features=128,
    hidden_channels=256,
    classes=47,
    order=2,
    precision="bf16",
)
"""The job of the page. bf16 halves memory and communication."""

WIDE: Final = replace(BILLION, features=1_000_000, stored=50)
GPUS: Final = (1, 8, 64, 512)

Range = tuple[float, float]
Costs = tuple[FullBatchCost, FullBatchCost]
Sampled = tuple[SampledCost, SampledCost]


def ranges(
    job: Job, gpus: int, fitted: Fitted, *, shared_weights: bool = True
) -> tuple[Costs, Sampled]:
    """Return the costs of full-batch and mini-batch training, with fast and with slow links.

    The ranges include the error of the cost model: its times are divided and multiplied by its
    largest error factor on a record that was left out of the fit.

    Args:
        shared_weights: See :func:`~research.scale.cluster.sampled_cost`.
    """
    both = ((FAST, 1 / fitted.spread), (SLOW, fitted.spread))
    full = [
        full_batch_cost(job, gpus, fitted.rates, fitted.kept, links, slower=slower)
        for links, slower in both
    ]
    sampled = [
        sampled_cost(
            job,
            gpus,
            fitted.rates,
            fitted.kept,
            links,
            slower=slower,
            shared_weights=shared_weights,
        )
        for links, slower in both
    ]
    return (full[0], full[1]), (sampled[0], sampled[1])


def billion_markdown(fitted: Fitted) -> str:
    """Render full-batch and mini-batch costs, in bf16 and fp32."""
    blocks = []
    for precision in ("bf16", "fp32"):
        if precision not in fitted.rates.operations:
            continue
        job = replace(BILLION, precision=precision)
        both = {gpus: ranges(job, gpus, fitted) for gpus in GPUS}
        blocks += [
            f"Full batch, partitioned, {precision}:",
            _full_table({gpus: costs for gpus, (costs, _) in both.items()}),
            f"Sampled, {precision}, {job.batch_size:,} targets a GPU and step, fanout "
            f"{','.join(map(str, job.fanouts))}:",
            _sampled_table({gpus: costs for gpus, (_, costs) in both.items()}, job),
        ]
    return "\n\n".join(blocks)


def wide_markdown(fitted: Fitted) -> str:
    """Render the costs for the same graph with a million sparse features."""
    job = WIDE
    if job.precision not in fitted.rates.operations:
        job = replace(job, precision=next(iter(fitted.rates.operations)))
    shape = sampled_shape(job)
    weights = 4 * shape.parameters
    touched = touched_columns(shape.inputs * (job.stored or 0), job.features)
    words = (
        f"The weights are {weights / 1e9:.1f} GB, with gradient and Adam's means "
        f"{4 * weights / 1e9:.1f} GB. A batch of {job.batch_size:,} targets reads "
        f"{shape.inputs:,} nodes, which touch about {touched:,.0f} of the {job.features:,} columns."
    )
    both = {gpus: ranges(job, gpus, fitted) for gpus in GPUS}
    spread = {gpus: ranges(job, gpus, fitted, shared_weights=False)[1] for gpus in GPUS}
    return "\n\n".join(
        [
            words,
            "Full batch, partitioned, all weights on every GPU:",
            _full_table({gpus: costs for gpus, (costs, _) in both.items()}),
            "Sampled, all weights on every GPU (as our loop does it):",
            _sampled_table({gpus: costs for gpus, (_, costs) in both.items()}, job),
            "Sampled, the first layer's weights spread over the GPUs by column:",
            _sampled_table(spread, job),
        ]
    )


def _full_table(costs: dict[int, Costs]) -> str:
    rows = []
    for gpus, (fast, slow) in costs.items():
        fits = _fits(fast.gpu_bytes, slow.gpu_bytes)
        seconds = [(fast.compute, slow.compute), (fast.exchange, slow.exchange)]
        seconds += [(fast.all_reduce, slow.all_reduce), (fast.seconds, slow.seconds)]
        names = ("compute", "rows of others", "gradients")
        slowest = [
            max(zip(names, (each.compute, each.exchange, each.all_reduce), strict=True), key=_last)
            for each in (fast, slow)
        ]
        rows.append(
            [
                f"{gpus}",
                f"{_range(fast.gpu_bytes / 1e9, slow.gpu_bytes / 1e9)}{fits}",
                *(_range(1e3 * low, 1e3 * high) for low, high in seconds),
                " / ".join(dict.fromkeys(name for name, _ in slowest)),
            ]
        )
    header = ("GPUs", "GB per GPU", "compute, ms", "rows of others, ms", "gradients, ms")
    return markdown_table((*header, "step, ms", "bottleneck"), rows)


def _sampled_table(costs: dict[int, Sampled], job: Job) -> str:
    rows = []
    names = ("compute", "drawing", "features", "gradients")
    for gpus, (fast, slow) in costs.items():
        parts = [(each.compute, each.drawing, each.fetch, each.all_reduce) for each in (fast, slow)]
        slowest = [max(zip(names, each, strict=True), key=_last)[0] for each in parts]
        milliseconds = [(1e3 * low, 1e3 * high) for low, high in zip(*parts, strict=True)]
        rows.append(
            [
                f"{gpus}",
                f"{_range(fast.gpu_bytes / 1e9, slow.gpu_bytes / 1e9)}"
                f"{_fits(fast.gpu_bytes, slow.gpu_bytes)}",
                *(_range(low, high) for low, high in milliseconds),
                f"{job.batch_size * gpus:,}",
                f"{fast.steps:,}",
                _range(fast.epoch, slow.epoch),
                " / ".join(dict.fromkeys(slowest)),
            ]
        )
    header = ("GPUs", "GB per GPU", *(f"{name}, ms" for name in names))
    return markdown_table((*header, "batch", "steps", "epoch, s", "bottleneck"), rows)


def _last(pair: tuple[str, float]) -> float:
    return pair[1]


def _fits(low: float, high: float) -> str:
    if low > FAST.gpu_bytes:
        return ", does not fit"
    return ", may not fit" if high > SLOW.gpu_bytes else ""


def _range(low: float, high: float) -> str:
    """Format a range with a precision that suits the prediction."""
    shown: Sequence[str] = list(dict.fromkeys((_rounded(low), _rounded(high))))
    return " – ".join(shown)


def _rounded(value: float) -> str:
    if value == 0:
        return "0"
    if value >= 95:
        return f"{round(value, 1 - math.floor(math.log10(value))):,.0f}"
    return f"{value:.0f}" if value >= 9.5 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


NOT_YET: Final = "Not measured yet."

_SHOWN: Final = {
    "gpu-big-graph": "2.45 million nodes at once, one H200",
    "big-graph": "A million nodes at once, 2 CPU cores",
    "gpu-wide-features": "A million features, one H200",
    "wide-features": "A million features, 2 CPU cores",
    "graph-import": "Import of edges",
    "sampler": "Batches with sampled neighbours",
    "sampled-accuracy": "Accuracy, sampled beside full batch",
    "ranks": "Several processes",
}

_SIZES: Final = (
    (
        "two tables that fit into memory",
        "`crossgcn train NODES EDGES --target COLUMN`",
        ("own-tables", " s of "),
    ),
    ("a graph that fits into memory", "`crossgcn train GRAPH`", ("big-graph", "at most")),
    ("... and a GPU", "`... --device cuda`", ("gpu-big-graph", "fp32: ")),
    (
        "more than memory, on one disk",
        "`crossgcn data import`, then `crossgcn train FOLDER --model cross-hops`",
        ("hops", "at most"),
    ),
    (
        "... and a GPU with room for the columns",
        "`... --device cuda --batch-size 8192`",
        ("gpu-hops", "rows, "),
    ),
    (
        "... with layers (`cross-gcn`)",
        "`... --batch-size 1024 --fanout 15,10`",
        ("sampler", "per second"),
    ),
    (
        "tables in DuckDB, or a folder of Parquet",
        "`crossgcn hops FILE.duckdb::TABLE ...`, then `crossgcn train FOLDER`",
        ("engines", "DuckDB"),
    ),
    (
        "tables of a Spark cluster",
        "`crossgcn hops spark://HOST:7077::TABLE ...`, then the same",
        ("engines", "Spark"),
    ),
    ("several processes or machines", "`torchrun ... -m crossgcn train ...`", ("ranks", "process")),
)
"""What a user has, what to run, and the record with the first words of its measurement."""

Records = Mapping[str, Mapping[str, Any]]


def fit_to_records(records: Records) -> Fitted | None:
    """Fit the cost model to the GPU records; return ``None`` if there are too few.

    Args:
        records: Records of benchmarks, by name.
    """
    far = measured_memory_rate(records)
    return None if far is None else Fitted.to_points(gpu_points(records), far)


def scale_markdown(records: Records, figure: str = "") -> dict[str, str]:
    """Render every generated part of the pages, by name.

    Args:
        records: Records of benchmarks, by name; a missing record is noted on the page.
        figure: Path of the figure, if there is one.
    """
    fitted = fit_to_records(records)
    parts = {"sizes": _sizes(records), "measured": _measured(records)}
    parts["assumptions"] = _assumptions()
    if fitted is None:
        return parts | dict.fromkeys(("rates", "fit", "memory", "billion", "wide"), NOT_YET)
    picture = f"![Measured and predicted steps, and GPUs against time]({figure})\n\n"
    return parts | {
        "rates": _rates(fitted, records),
        "fit": (picture if figure else "") + _fit(fitted),
        "memory": _memory(fitted),
        "billion": billion_markdown(fitted) + _own_sampler(records),
        "wide": wide_markdown(fitted),
    }


def _sizes(records: Records) -> str:
    rows = []
    for what, command, (name, words) in _SIZES:
        record = records.get(name)
        notes = [] if record is None or record["quick"] else record["notes"]
        rows.append([what, command, next((note for note in notes if words in note), NOT_YET)])
    return markdown_table(("you have", "run", "measured"), rows)


def _measured(records: Records) -> str:
    lines = []
    for name, title in _SHOWN.items():
        record = records.get(name)
        script = BENCHMARKS[name].script if name in BENCHMARKS else name.replace("-", "_")
        what = f"**{title}** (`research/benchmarks/{script}.py`): "
        if record is None or record["quick"]:
            lines.append(f"- {what}{NOT_YET[0].lower()}{NOT_YET[1:]}")
            continue
        notes = [note for note in record["notes"] if not note.startswith("other work kept")]
        notes += [
            f"{each['what']}, {each['value']:.2f}×"
            for each in record["results"]
            if each["unit"] == "×"
        ]
        lines.append(f"- {what}{'; '.join(notes)}.")
    return "\n".join(lines)


def _own_sampler(records: Records) -> str:
    """State the cost of sampling on the CPU, if our sampler was measured."""
    record = records.get("sampler")
    if record is None or record["quick"]:
        return ""
    seconds = next(each["median"] for each in record["timings"] if each["side"] == "ours")
    steps = math.ceil(BILLION.train_share * BILLION.nodes / (8 * BILLION.batch_size))
    return (
        "\n\nOur own sampler makes a batch of as many targets, features included, in "
        f"{1e3 * seconds:.0f} ms on the CPU it was measured on, from a graph a hundredth of this "
        f"size. With such a CPU for each of 8 GPUs an epoch would take {steps * seconds:,.0f} s, "
        "whatever the GPUs do."
    )


def _rates(fitted: Fitted, records: Records) -> str:
    rates, ceilings = fitted.rates, records["gpu-step"]["ceilings"]
    rows = [
        [
            f"operations per second in {precision}",
            f"{rates.operations[precision] / 1e12:.0f} T",
            f"{ceilings[precision]['operations_per_second'] / 1e12:.0f} T"
            if precision in ceilings
            else "—",
        ]
        for precision in ("fp32", "tf32", "bf16")
        if precision in rates.operations
    ]
    ceiling = measured_memory_rate(records)
    copied = f"{ceiling / 1e12:.1f} TB/s" if ceiling is not None else "—"
    far = f"{rates.far / 1e12:.1f} TB/s{', not fitted' if rates.far == ceiling else ''}"
    cached = f"{ceilings['fp32']['cache_bytes_per_second'] / 1e12:.1f} TB/s"
    rows += [
        ["bytes from and to memory", f"{rates.memory / 1e12:.1f} TB/s", copied],
        ["bytes gathered from the cache", f"{rates.near / 1e12:.0f} TB/s", cached],
        ["bytes gathered from memory", far, copied],
        ["bytes moved when half is found in the cache", f"{rates.cache / 1e9:.1f} GB", "—"],
        ["every step, however small", f"{1e3 * rates.step:.2f} ms", "—"],
    ]
    return markdown_table(("rate", "fitted", "ceiling measured"), rows)


def _fit(fitted: Fitted) -> str:
    summary = markdown_table(
        ("record", "steps", "error", "a step left out", "the record left out", "worst of these"),
        [_summary(name, judged) for name, judged in _by_record(fitted.times)],
    )
    rows = [_row(each, 1e3, ".3f") for each in fitted.times]
    return f"{summary}\n\n{_details('Every step', 'ms', rows)}"


def _memory(fitted: Fitted) -> str:
    values = [f"{count:.1f}" for count in fitted.kept.counts[:-1]]
    values.append(f"{fitted.kept.counts[-1] / 1e6:.0f} MB")
    coefficients = markdown_table(("kept", "fitted"), list(zip(KEPT, values, strict=True)))
    summary = markdown_table(
        ("record", "steps", "error", "a step left out", "the record left out", "worst of these"),
        [_summary(name, judged) for name, judged in _by_record(fitted.memories)],
    )
    rows = [_row(each, 1e-6, ",.0f") for each in fitted.memories]
    return f"{coefficients}\n\n{summary}\n\n{_details('Every step', 'MB', rows)}"


def _by_record(judged: Sequence[Judged]) -> Iterator[tuple[str, list[Judged]]]:
    for name in dict.fromkeys(each.point.record for each in judged):
        yield name, [each for each in judged if each.point.record == name]
    yield "all", list(judged)


def _summary(name: str, judged: Sequence[Judged]) -> list[str]:
    elsewhere = [
        (each.record_left_out, each.measured) for each in judged if each.record_left_out is not None
    ]
    return [
        f"`{name}`" if name != "all" else "all",
        f"{len(judged)}",
        _percent(rms_log([(each.predicted, each.measured) for each in judged])),
        _percent(rms_log([(each.left_out, each.measured) for each in judged])),
        _percent(rms_log(elsewhere)) if elsewhere else "—",
        f"× {math.exp(max(abs(math.log(a / b)) for a, b in elsewhere)):.2f}" if elsewhere else "—",
    ]


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def _row(each: Judged, scale: float, form: str) -> list[str]:
    return [
        f"{each.point.record}: {each.point.case}",
        f"{scale * each.measured:{form}}",
        f"{scale * each.predicted:{form}}",
        f"{each.predicted / each.measured:.2f}",
        f"{each.left_out / each.measured:.2f}",
        "—" if each.record_left_out is None else f"{each.record_left_out / each.measured:.2f}",
    ]


def _details(title: str, unit: str, rows: Sequence[Sequence[str]]) -> str:
    header = (
        "step",
        f"measured, {unit}",
        f"predicted, {unit}",
        "ratio",
        "ratio, step left out",
        "ratio, record left out",
    )
    table = markdown_table(header, rows)
    return f"<details><summary>{title}</summary>\n\n{table}\n\n</details>"


def _assumptions() -> str:
    def rate(value: float) -> str:
        return f"{value / 1e9:.0f} GB/s"

    pairs = [(links.gpus_per_machine, links.gpu_bytes) for links in (FAST, SLOW)]
    rows = [
        ["GPUs that NVLink joins", "g", *(f"{gpus}" for gpus, _ in pairs)],
        ["memory of a GPU", "", *(f"{size / 1e9:.0f} GB" for _, size in pairs)],
        ["to a GPU from its machine", "β", rate(FAST.inside), rate(SLOW.inside)],
        ["to a GPU from other machines", "γ", rate(FAST.between), rate(SLOW.between)],
        [
            "latency of a message",
            "λ",
            *(f"{1e6 * links.hop_seconds:.0f} µs" for links in (FAST, SLOW)),
        ],
        [
            "neighbours drawn per second on a GPU",
            "σ",
            *(f"{links.drawn_edges / 1e6:,.0f} million" for links in (FAST, SLOW)),
        ],
        [
            "edges between parts, of those of a partition at random",
            "c",
            *(f"{100 * links.cut:.0f} %" for links in (FAST, SLOW)),
        ],
        [
            "slowest GPU over the mean",
            "",
            *(f"{links.imbalance:.2f}" for links in (FAST, SLOW)),
        ],
        [
            "rows travel while others are multiplied",
            "",
            *("yes" if links.overlap else "no" for links in (FAST, SLOW)),
        ],
    ]
    return markdown_table(("assumed", "symbol", "fast", "slow"), rows)
