"""How the cost of a step grows with batch, inducing points, depth, width and importance samples, and the rate
of steps with the number of rows: in memory, streamed from disk, and computed when asked for."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.cases import CASES, Case
from benchmarks.client import Worker
from benchmarks.measure import Turns
from benchmarks.systems import System, worker_environment
from benchmarks.tables import NOTHING, Table

BASE = Case("base", batch=1000, inputs=8, width=8, num_inducing=100, depth=2)
LATENT = replace(CASES["c-lvgpgp"], name="latent")
AXES: dict[str, tuple[str, Case, tuple[int, ...]]] = {  # the field that grows, the rest, its values
    "batch": ("batch", BASE, (250, 500, 1000, 2000, 4000, 8000)),
    "inducing": ("num_inducing", BASE, (50, 100, 200, 400)),
    "depth": ("depth", BASE, (1, 2, 3, 4, 5)),
    "width": ("width", BASE, (1, 2, 4, 8)),
    "samples": ("importance", LATENT, (1, 2, 5, 10)),
}
ROWS: dict[str, tuple[str, str, tuple[int, ...]]] = {  # dataset, memory limit in GB, numbers of rows
    "memory": ("arm8", "4", (10_000, 100_000, 1_000_000)),
    "disk": ("arm8", "1e-6", (100_000, 1_000_000, 10_000_000)),
    "computed": ("arm8_rows", "1e-6", (10_000, 1_000_000, 10_000_000, 100_000_000)),
}
PARTS = (*AXES, *(f"rows-{name}" for name in ROWS))
Note = Callable[[str], None]


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Exponent b of y = a x^b by least squares in the logarithms; None of fewer than two points."""
    if len(points) < 2:
        return None
    x, y = np.log(np.asarray(points, float)).T
    return float(np.polyfit(x, y, 1)[0])


def step_rows(axes: Sequence[str], precisions, rounds: int, seconds: float, threads: int, note: Note):
    """Median step times along the axes: one worker for each precision, axes one after another."""
    found = []
    with tempfile.TemporaryDirectory(prefix="dgpbench-perf-") as folder:
        for precision in precisions if axes else ():
            log = Path(folder) / "log"
            with Worker.of(sys.executable, "dgpbench", precision, threads, log) as worker:
                for axis in axes:
                    name, base, values = AXES[axis]
                    for value in values:
                        samples = value if name == "importance" else 0
                        system = System("dgpbench", precision, importance=samples)
                        case = base if samples else replace(base, **{name: value})
                        turns = Turns(case, system, worker)
                        turns.start(seconds)
                        for _ in range(rounds):
                            turns.turn()
                        cell = turns.cell
                        ms = statistics.median(cell["step_ms"]) if cell["step_ms"] else None
                        found.append({"axis": axis, "value": value, "precision": precision, "step_ms": ms})
                        note(f"{axis} {value:,} {precision}: " + (f"{ms:.2f} ms" if ms else cell["reason"]))
    return found


def data_rows(parts: Sequence[str], seconds: float, threads: int, note: Note) -> list[dict]:
    """Steps per second and memory against the number of rows; a process for each number."""
    found = []
    for part in parts:
        dataset, limit, sizes = ROWS[part]
        for n in sizes:
            with tempfile.TemporaryDirectory(prefix="dgpbench-perf-") as folder:
                words = [f"dataset={dataset}", f"dataset.n={n}", f"engine.memory_limit_gb={limit}"]
                words += [f"paths.datasets={folder}", f"budget.seconds={seconds}", f"threads={threads}"]
                one = {"axis": f"rows-{part}", "value": n} | _in_process(words, threads)
            found.append(one)
            rate = f"{one['steps_per_second']:.1f} steps/s, {one['own_mb']:.0f} MB"
            note(f"rows {n:,} ({part}): {rate}, {one['load_seconds']:.1f} s to load")
    return found


def _in_process(words: list[str], threads: int) -> dict:
    env = worker_environment(threads) | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "benchmarks.rows", *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout.splitlines()[-1])


def step_table(rows: Sequence[dict]) -> Table:
    """One line per axis and precision: times, the exponent over all values and between the last two."""
    lines = []
    for axis, precision in dict.fromkeys((r["axis"], r["precision"]) for r in rows):
        points = [
            (r["value"], r["step_ms"]) for r in rows if (r["axis"], r["precision"]) == (axis, precision)
        ]
        times = ", ".join(f"{x:,}: {ms:.1f}" if ms else f"{x:,}: failed" for x, ms in points)
        good = [(x, ms) for x, ms in points if ms]
        lines.append([axis, precision, times, _number(slope(good)), _number(slope(good[-2:]))])
    header = ["axis", "precision", "ms per step", "exponent", "at the end"]
    return Table("How the time of a step grows", header, lines)


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def rows_table(rows: Sequence[dict]) -> Table:
    lines = [
        [
            r["axis"].partition("-")[2],
            f"{r['value']:,}",
            f"{r['steps_per_second']:.1f}",
            f"{r['own_mb']:.0f}",
            f"{r['peak_mb']:.0f}",
            f"{r['load_seconds']:.1f}",
        ]
        for r in rows
    ]
    header = ["rows", "number", "steps/s", "own MB", "peak MB", "load s"]
    return Table("Steps per second and memory against the number of rows", header, lines)


def _ticks(axes, values: Sequence[int]) -> None:
    """The measured values, and plain numbers of milliseconds."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_xticks(values, [f"{v:,}" if v < 1e5 else f"$10^{{{round(math.log10(v))}}}$" for v in values])
    axes.set_xticks([], minor=True)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.tick_params(labelsize=7)


def draw(steps: Sequence[dict], rows: Sequence[dict], path: Path) -> None:
    """Step times and rates in logarithmic panels, one for each axis."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels: dict[str, dict[str, list]] = {}
    for r in steps:
        if r["step_ms"]:
            panels.setdefault(r["axis"], {}).setdefault(r["precision"], []).append((r["value"], r["step_ms"]))
    for r in rows:
        lines = panels.setdefault("rows", {}).setdefault(r["axis"].partition("-")[2], [])
        lines.append((r["value"], 1e3 / r["steps_per_second"]))
    figure = Figure(figsize=(3.2 * min(3, len(panels)), 2.8 * -(-len(panels) // 3)), layout="constrained")
    FigureCanvasAgg(figure)
    for number, (axis, lines) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(-(-len(panels) // 3), min(3, len(panels)), number)
        for name, points in lines.items():
            axes.loglog(*zip(*points, strict=True), marker="o", markersize=3, label=name)
        _ticks(axes, sorted({value for points in lines.values() for value, _ in points}))
        axes.set_ylim(axes.get_ylim()[0] / 1.5, axes.get_ylim()[1] * 1.5)
        axes.set_title(axis, loc="left", fontsize=9)
        axes.set_ylabel("ms per step", fontsize=8)
        axes.grid(color="0.9", linewidth=0.6)
        axes.legend(frameon=False, fontsize=7)
    figure.savefig(path, dpi=120)
