"""Results as tables: plain rows once, rendered for the terminal and as Markdown."""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.ratios import PAIRS, cells_of, median_ms, peak, rate_and_share, ratio, summary_lines
from benchmarks.systems import SYSTEMS

NOTHING = "–"
GROUPS = {
    "a": "(a) batch 10,000, inner width 1",
    "b": "(b) batch 1000, inner width 8",
    "c": "(c) LV-GP-GP, batch 512, M=128, 5 mixed GPs",
}


@dataclass(frozen=True)
class Table:
    title: str
    header: list[str]
    rows: list[list[str]]


def tables(results: dict) -> list[Table]:
    groups: dict[str, list[str]] = {}
    for case in results["cases"]:
        groups.setdefault(GROUPS.get(case.partition("-")[0], case.partition("-")[0]), []).append(case)
    out = [make(results, group, cases) for group, cases in groups.items() for make in (_times, _ratios)]
    return [*out, _details(results)]


def _systems(results: dict) -> list[str]:
    measured = {cell["system"] for cell in results["cells"]}
    return [name for name in SYSTEMS if name in measured]


def _models(cases: list[str]) -> list[str]:
    return [(case.partition("-")[2] or case).upper() for case in cases]


def _times(results: dict, group: str, cases: list[str]) -> Table:
    cells = cells_of(results)
    rows = [
        [_spaced(system), *(_time(cells.get((case, system))) for case in cases)]
        for system in _systems(results)
    ]
    return Table(f"{group}: median milliseconds per training step", ["system", *_models(cases)], rows)


def _ratios(results: dict, group: str, cases: list[str]) -> Table:
    cells, measured = cells_of(results), set(_systems(results))
    rows = [
        [f"{_spaced(ours)} against {_spaced(peer)}"]
        + [_number(ratio(cells, case, ours, peer), "{:.2f}x") for case in cases]
        for ours, peer in PAIRS
        if measured.issuperset((ours, peer))
    ]
    return Table(f"{group}: the peer's median over ours", ["pair", *_models(cases)], rows)


def _details(results: dict) -> Table:
    rows = []
    for cell in results["cells"]:
        if cell["status"] == "ok":
            rate, share = rate_and_share(results, cell)
            numbers = [
                _short(min(cell["step_ms"])),
                _short(max(cell["step_ms"])),
                _number(rate, "{:.3g}"),
                _number(share, "{:.0%}"),
                _number(cell["compile_seconds"], "{:.1f}"),
                _number(cell["peak_mb"], "{:.0f}"),
            ]
        else:
            numbers = [NOTHING] * 6
        rows.append([cell["case"], _spaced(cell["system"]), _time(cell), *numbers])
    header = ["case", "system", "ms", "least", "most", "GFLOP/s", "limit", "first s", "MB"]
    return Table("Spread, achieved rate, share of the matmul limit, first call, peak memory", header, rows)


def _spaced(name: str) -> str:
    return name.replace("-", " ")


def _time(cell: dict | None) -> str:
    if cell is None:
        return NOTHING
    if cell["status"] != "ok":
        return "NaN" if cell["status"] == "nan" else "failed"
    return _short(median_ms(cell))


def _short(ms: float) -> str:
    return f"{ms:.2f}" if ms < 10 else f"{ms:.1f}" if ms < 100 else f"{ms:.0f}"


def _number(value: float | None, form: str) -> str:
    return NOTHING if value is None or math.isnan(value) else form.format(value)


def facts(results: dict) -> list[str]:
    """Facts about the machine and software behind the numbers."""
    settings, machine = results["settings"], results["machine"]
    peaks = [peak(results, case) for case in results["peak_gflops"]]
    rates = ", ".join(
        f"{dtype} {min(found) / 1e9:.1f} to {max(found) / 1e9:.1f}"
        for dtype in ("float64", "float32")
        if (found := [one[dtype] for one in peaks if not math.isnan(one[dtype])])
    )
    place = " and a GPU" if settings.get("device") == "gpu" else ""
    lines = [
        f"{results['started']}, {machine['processor']}, {settings['threads']} threads{place}",
        f"{settings['rounds']} rounds of {settings['turn_seconds']:g} s turns, interleaved, "
        "same malloc settings for all, denormal numbers flushed to zero",
        f"matmul in turns with each case, the better median of TensorFlow and NumPy, GFLOP/s: {rates}",
    ]
    unkept = [name for name, kept in results["malloc_kept"].items() if not kept]
    if unkept:
        lines.append(f"the malloc settings did not take effect in: {', '.join(unkept)}")
    libraries = {SYSTEMS[name].library: found for name, found in results["versions"].items()}
    for library, found in libraries.items():
        lines.append(f"{library}: " + ", ".join(f"{name} {version}" for name, version in found.items()))
    failed = [c for c in results["cells"] if c["status"] != "ok"]
    lines += [f"{c['case']} {c['system']}: {c['status']}: {c['reason']}" for c in failed]
    return lines + results["notes"]


def markdown(results: dict) -> str:
    parts = ["# Step times", *(f"- {_plain(line)}" for line in facts(results)), ""]
    parts += map(markdown_table, tables(results))
    parts += ["## Targets", "", *(f"- {line}" for line in summary_lines(results)), ""]
    return "\n".join(parts)


def markdown_table(table: Table) -> str:
    lines = [f"## {table.title}", "", _row(table.header), _row(["---"] * len(table.header))]
    return "\n".join([*lines, *map(_row, table.rows), ""])


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(_plain(cell) for cell in cells) + " |"


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


def show(results: dict, console) -> None:
    """Print all tables and the summary to a rich console."""
    from rich.text import Text

    for line in facts(results):
        console.print(Text(line, style="dim"))
    for table in tables(results):
        show_table(table, console)
    for line in summary_lines(results):
        style = "red" if line.endswith("not met") else "green" if line.endswith(": met") else ""
        console.print(Text(line, style=style))


def show_table(table: Table, console) -> None:
    from rich import box
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for i, name in enumerate(table.header):
        drawn.add_column(
            name,
            justify="left" if i == 0 or name == "system" else "right",
            no_wrap=name in ("case", "system"),
        )
    for row in table.rows:
        drawn.add_row(*map(Text, row))
    console.print(drawn)
