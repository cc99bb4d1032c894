"""Render benchmark records, for the terminal and for ``research/benchmarks/README.md``."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from matplotlib.figure import Figure
from rich.table import Table

from crossgcn.data.files import replacing
from crossgcn.errors import BadInput, unknown_name
from crossgcn.reports.figure_style import WIDTH, figure_style, tidy
from crossgcn.reports.format import markdown_table
from research.benchmarks.catalogue import BENCHMARKS

Unit = Literal["×", "%", "slope", "points", "relative error"]
Verdict = Literal[
    "aim met", "floor met", "floor missed", "floor missed, aim met", "below the aim", "—"
]


@dataclass(frozen=True)
class BenchmarkResult:
    """A headline result of a benchmark.

    Attributes:
        case: The case, such as ``citeseer`` or ``fp32, E 32``.
        what: The other side of a ratio, or the quantity.
        value: Median over the rounds.
        unit: Unit of ``value``.
        low: Lower quartile over the rounds, if there are several.
        high: Upper quartile.
        aim: Target computed by the measurement itself, such as the roofline's ratio.
    """

    case: str
    what: str
    value: float
    unit: Unit = "×"
    low: float | None = None
    high: float | None = None
    aim: float | None = None


@dataclass(frozen=True)
class Floor:
    """The required and the desired value of one result.

    Attributes:
        floor: Required value, if any.
        aim: Desired value, if any.
        at_most: Whether smaller is better.
    """

    floor: float | None = None
    aim: float | None = None
    at_most: bool = False

    def judge(self, value: float) -> Verdict:
        """Compare a value with floor and aim; a measured aim may be easier than the floor."""
        reached = self._reaches(value, self.aim)
        if self.floor is not None and not self._reaches(value, self.floor):
            return "floor missed, aim met" if reached else "floor missed"
        if reached:
            return "aim met"
        if self.floor is not None:
            return "floor met"
        return "—" if self.aim is None else "below the aim"

    def _reaches(self, value: float, bound: float | None) -> bool:
        if bound is None:
            return False
        return value <= bound if self.at_most else value >= bound


class Floors:
    """Floors and aims of all benchmarks.

    Args:
        table: Floors by benchmark, result and case.
    """

    def __init__(self, table: Mapping[tuple[str, str, str], Floor]) -> None:
        self.table = table

    def of(self, benchmark: str, result: BenchmarkResult) -> Floor:
        """Return the floor of a result; an aim in the result replaces the one in the table."""
        found = self.table.get((benchmark, result.what, result.case), Floor())
        at_most = found.at_most or result.what.startswith("over ")
        return Floor(found.floor, found.aim if result.aim is None else result.aim, at_most)


def read_floors(path: Path) -> Floors:
    """Read ``floors.toml``.

    Raises:
        BadInput: If a benchmark or key is unknown; it would otherwise be ignored silently.
    """
    table: dict[tuple[str, str, str], Floor] = {}
    for benchmark, results in tomllib.loads(path.read_text(encoding="utf-8")).items():
        if benchmark not in BENCHMARKS:
            raise unknown_name(f"benchmark in {path}", benchmark, BENCHMARKS)
        for what, entry in results.items():
            _check_keys(entry, f"{path}: {benchmark}, {what}")
            floors, aims = entry.get("floor", {}), entry.get("aim", {})
            for case in floors | aims:
                table[benchmark, what, case] = Floor(
                    floors.get(case), aims.get(case), entry.get("at_most", False)
                )
    return Floors(table)


def _check_keys(keys: Iterable[str], where: str) -> None:
    for key in keys:
        if key not in ("floor", "aim", "at_most"):
            raise BadInput(f"{where} has {key!r}; give floor, aim and at_most only")


Record = Mapping[str, Any]

COLUMNS = ("case", "against, or what", "measured", "spread", "floor", "aim", "")
SHOWN_KERNELS = 12


def benchmark_table(record: Record, floors: Floors) -> Table:
    """Return the results of one record with their floors and aims."""
    title = BENCHMARKS[record["benchmark"]].title
    table = Table(title=f"{title}{' (quick look)' * record['quick']}", title_justify="left")
    for position, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if position < 2 else "right")
    for row in _rows(record, floors):
        table.add_row(*row)
    return table


def benchmark_markdown(
    name: str, record: Record | None, floors: Floors, *, figure: str = ""
) -> str:
    """Render the section of one benchmark.

    Args:
        name: Name of the benchmark.
        record: Its record; a quick record is ignored.
        floors: Floors and aims.
        figure: Path of its figure, if it has one.
    """
    if record is None or record["quick"]:
        return f"No record yet: `crossgcn bench {name} --out results/benchmarks` makes one."
    parts = [
        _machine(record),
        markdown_table(COLUMNS, list(_rows(record, floors))),
        "\n".join(f"- {note}" for note in record["notes"]),
    ]
    if "roofline" in record:
        parts += _breakdowns(record)
    if figure:
        parts.append(f"![Time and memory against size]({figure})")
    return "\n\n".join(part for part in parts if part)


def speed_markdown(
    records: Mapping[str, Record], earlier: Mapping[str, Sequence[Record]] | None = None
) -> str:
    """Render the speedups over PyG's GCN in a short table.

    Args:
        records: Records by the benchmark's name.
        earlier: Further records of the same benchmarks, from other days or machines; a ratio that
            was measured several times is shown as a range, the low end first.
    """
    rows = []
    for name, words in _HEADLINES.items():
        every = [records[name], *(earlier or {}).get(name, ())]
        results = [BenchmarkResult(**entry) for record in every for entry in record["results"]]
        for start in dict.fromkeys(result.case.partition(", ")[0] for result in results):
            if name == "gpu-step":
                chosen = [result for result in results if result.case.startswith(f"{start}, ")]
                what = words.format(precision=start)
            else:
                chosen, what = results, words
            rows.append([what, *(_against(chosen, peer) for peer in _PEERS)])
            if name != "gpu-step":
                break
    return markdown_table(("workload", *(f"against {name}" for name in _PEERS.values())), rows)


_PEERS = {
    "PyG GCN": "PyG's GCN",
    "tuned PyG GCN": "PyG, tuned",
    "compiled PyG GCN": "PyG, compiled",
    "sparse GCN": "a GCN over sparse products by hand",
}
_HEADLINES = {
    "cpu-step": "one step, 2 CPU cores, E 32: Cora / Citeseer / Pubmed",
    "cpu-protocol": "20 splits × 500 epochs with validation, Citeseer, 2 CPU cores",
    "gpu-step": "one step, H200, Reddit400K-shaped, {precision}, E 32 / 128 / 512 / 1024",
    "gpu-stack": "20 splits × 4 hidden sizes × 500 epochs, Citeseer, H200",
}


def _against(results: list[BenchmarkResult], peer: str) -> str:
    cases: dict[str, list[BenchmarkResult]] = {}
    for result in results:
        if result.what == peer:
            cases.setdefault(result.case, []).append(result)
    found = []
    for measured in cases.values():
        ends = sorted(measured, key=lambda result: result.value)
        texts = [_number(result.value, result.unit) for result in (ends[0], ends[-1])]
        found.append("–".join(dict.fromkeys(texts)))
    return " / ".join(found) or "—"


def draw_growth(record: Record) -> Figure:
    """Draw time and memory against each size, on logarithmic axes."""
    curves = record["growth"]
    with figure_style("growth"):
        figure = Figure(figsize=(WIDTH, 4.2), layout="constrained")
        grid = figure.subplots(2, len(curves), squeeze=False, sharey="row")
        for column, curve in enumerate(curves):
            for row, (quantity, scale, unit) in enumerate(
                (("time", 1e3, "ms"), ("memory", 1e-6, "MB"))
            ):
                axes = grid[row, column]
                values = [scale * value for value in curve[quantity]]
                axes.loglog(curve["sizes"], values, marker="o", color="#D55E00")
                axes.set_title(f"slope {curve['slopes'][quantity]:.2f}", fontweight="normal")
                axes.set_xticks(curve["sizes"], [f"{size:g}" for size in curve["sizes"]])
                axes.minorticks_off()
                tidy(axes)
                if column == 0:
                    axes.set_ylabel(f"{quantity}, {unit}")
                if row == 1:
                    axes.set_xlabel(curve["label"])
    return figure


def write_growth_figure(record: Record, path: Path) -> None:
    """Write the figure of a growth record as PNG."""
    with figure_style("growth"), replacing(path) as file:
        draw_growth(record).savefig(file, format="png", dpi=130, metadata={"Software": None})


def _rows(record: Record, floors: Floors) -> Iterator[list[str]]:
    for entry in record["results"]:
        result = BenchmarkResult(**entry)
        floor = floors.of(record["benchmark"], result)
        sign = "≤ " if floor.at_most else ""
        # Quick records measure a smaller problem; floors do not apply to them.
        verdict = "—" if record["quick"] else floor.judge(result.value)
        yield [
            result.case,
            result.what,
            _number(result.value, result.unit),
            "" if result.low is None or result.high is None else _range(result),
            "" if floor.floor is None else sign + _number(floor.floor, result.unit),
            "" if floor.aim is None else sign + _number(floor.aim, result.unit),
            "" if verdict == "—" else verdict,
        ]


def _range(result: BenchmarkResult) -> str:
    assert result.low is not None and result.high is not None
    return f"{_number(result.low, result.unit)} – {_number(result.high, result.unit)}"


def _number(value: float, unit: str) -> str:
    if unit == "points":
        return f"{value:+.2f}"
    if unit == "relative error":
        return f"{value:.1e}"
    if unit == "slope":
        return f"{value:.2f}"
    text = f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return f"{text}{unit if unit == '×' else ' %'}"


def _machine(record: Record) -> str:
    hardware, versions = record["hardware"], record["environment"]["versions"]
    gpu = f"{hardware['gpu']}; " if record["device"] == "cuda" else ""
    commit = record["environment"]["commit"]
    return (
        f"{gpu}{hardware['processor']}, {hardware['cores']} cores. {record['rounds']} rounds, "
        f"torch {versions['torch']}, PyG {versions['torch-geometric']}, commit "
        f"{commit[:12] + commit[40:] if commit else 'unknown'}."
    )


def _breakdowns(record: Record) -> Iterator[str]:
    """Render predicted and measured times by part, for the first and the last size in fp32."""
    ceilings = record["ceilings"]["fp32"]
    yield (
        f"Ceilings measured in fp32: {ceilings['operations_per_second'] / 1e12:.0f} TFLOP/s in "
        f"products, {ceilings['memory_bytes_per_second'] / 1e12:.2f} TB/s from memory, "
        f"{ceilings['cache_bytes_per_second'] / 1e12:.2f} TB/s from the cache."
    )
    least = {(entry["case"], entry["order"]): entry["seconds"] for entry in record["roofline"]}
    whole = [entry for entry in record["roofline"] if entry["order"] == 2]
    whole = [entry for entry in whole if entry["case"].startswith("fp32")]
    for entry in (whole[0], whole[-1]) if len(whole) > 1 else whole:
        plain = least.get((entry["case"], 1))
        ratio = f"; of our GCN's, {1e3 * plain:.3f} ms" if plain is not None else ""
        yield f"Least work of a step, {entry['case']}: {1e3 * entry['seconds']:.3f} ms{ratio}."
        yield markdown_table(
            ("part", "GFLOP", "MB from memory", "MB gathered", "least ms"),
            [
                [
                    part["name"],
                    f"{part['operations'] / 1e9:.2f}",
                    f"{part['memory_bytes'] / 1e6:.1f}",
                    f"{part['gathered_bytes'] / 1e6:.1f}",
                    f"{1e3 * part['seconds']:.4f}",
                ]
                for part in entry["parts"]
            ],
        )
        kernels = record["kernels"].get(entry["case"], {})
        if kernels:
            yield f"Kernels of a step as measured, {entry['case']}, the {SHOWN_KERNELS} longest:"
            longest = list(kernels.items())[:SHOWN_KERNELS]
            yield markdown_table(
                ("kernel", "ms"), [[f"`{name}`", f"{1e3 * spent:.4f}"] for name, spent in longest]
            )
            yield _rates(entry["parts"], kernels)


def _rates(parts: list[dict[str, Any]], kernels: Mapping[str, float]) -> str:
    """Return the rates of the two kinds of kernels that take longest."""
    gathered = sum(part["gathered_bytes"] for part in parts)
    features = ("project features", "gradient of first weights")
    operations = sum(part["operations"] for part in parts if part["name"] in features)
    summing = sum(spent for name, spent in kernels.items() if name == "_sum_segments")
    multiplying = sum(spent for name, spent in kernels.items() if name.startswith("multiply_"))
    found = []
    if summing > 0:
        found.append(f"sparse sums gathered {gathered / summing / 1e12:.1f} TB/s")
    if multiplying > 0:
        rate = operations / multiplying / 1e12
        found.append(f"products with the features made {rate:.0f} TFLOP/s, each counted once")
    return f"Reached: {'; '.join(found)}." if found else ""
