"""Step times of the posteriors that couple layers beside mean field, in turns within one process.

A step is held to the matrix products that its method needs, as flops.py holds mean field: a product counts in
full, elementwise work counts nothing. A step of few rows tells what the M x M part takes of it: what the
remaining rows add is held to the products that they need.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from benchmarks import flops
from benchmarks.cases import Case
from benchmarks.measure import steps_per_turn
from benchmarks.tables import Table

CASE = Case("posteriors", batch=1000, inputs=8, width=5, num_inducing=50, depth=2)
FEW = replace(CASE, batch=20)  # rows that leave little but the M x M part
METHODS = ("dsvi", "global_inducing", "locations", "star", "joint")
WANTED = 0.7  # of the share of its limit that mean field reaches


def count(method: str, case: Case = CASE) -> int:
    """Flops of a step in float64, forward and backward."""
    if method == "dsvi":
        return flops.count(case, exact=True).total
    layers = zip(case.widths[:-1], case.gps, range(case.depth), strict=True)
    return sum(_layer(method, case, *layer) for layer in layers)


def _layer(method: str, case: Case, D: int, P: int, i: int) -> int:
    B, M, last = case.columns, case.num_inducing, i == case.depth - 1
    distances = 2 * M * (D + 2)
    total = distances * B * (3 if i else 2) + distances * M * 3 + 2 * P * M * B * 3  # kernels; the mean
    factor = M**3 // 3 + 2 * 2 * M**3  # a Cholesky factor and its gradient
    if method in ("star", "joint"):
        hidden = sum(case.gps[:-1]) * M  # inducing outputs below the last layer
        groups = case.width if method == "star" else 1
        own, below = (
            P // groups,
            sum(case.gps[:i]) * M // groups,
        )  # of a group: GPs here, columns below
        inner = groups * (own * below + M * own * (own + 1) // 2)  # of R, which is lower triangular
        columns = P * hidden if last else inner
        total += factor + 3 * M * M * B + 3 * 2 * M * B * columns  # A = L^-1 K; A^T R
        if last:
            return total + 3 * 2 * P * M * M * B  # its own covariance
        return total + 3 * 2 * (P // groups) ** 2 * hidden * B  # covariances of the GPs of a group
    shared = P if last and method == "locations" else 1  # covariances of u; a drawn u has none
    total += 2 * shared * M * M * B * 2 + 2 * factor + 2 * M**3  # quadratic form; two factors; the form
    if method == "locations":
        return total + 3 * P * M**3  # L^-1 R
    return total + factor + 3 * M**3 + 3 * 2 * M**3 + (3 * 2 * M**3 if last else 0)  # B, V, R R^T, V^T V


def measure(methods: Sequence[str], rounds: int, seconds: float, threads: int, note: Callable[[str], None]):
    """Median milliseconds of each method's step, in all and with few rows, and shares of the limit: of the
    step, and of what the other rows add. Turns interleaved; with one
    thread processor time, which other work on the machine disturbs less."""
    from benchmarks.steps import matmul, ours

    ours.set_threads(threads)
    runs = {(name, case.batch): ours.build(case, "float64", name) for name in methods for case in (CASE, FEW)}
    runs["matmul"] = matmul.build(flops.PEAK, "float64")
    clock = time.process_time if threads == 1 else time.perf_counter
    steps, times = {}, {name: [] for name in runs}
    for name, run in runs.items():
        run(2)
        steps[name] = steps_per_turn(_timed(run, 2, clock), seconds)
        said = name if isinstance(name, str) else f"{name[0]}, {name[1]} rows"
        note(f"{said}: {steps[name]} steps a turn")
    for number in range(rounds):
        names = list(runs)
        for i in range(len(names)):
            name = names[(i + number) % len(names)]
            times[name].append(_timed(runs[name], steps[name], clock))
    peak = flops.PEAK_FLOPS / statistics.median(times.pop("matmul"))
    medians = {name: 1e3 * statistics.median(found) for name, found in times.items()}
    return [_row(name, medians[name, CASE.batch], medians[name, FEW.batch], peak) for name in methods]


def _row(method: str, step_ms: float, few_ms: float, peak: float) -> dict:
    """Figures of one method; `peak` in flops a second."""
    work, added = (float(n) for n in (count(method), count(method) - count(method, FEW)))
    shares = {"share": 1e3 * work / step_ms / peak, "rows_share": 1e3 * added / (step_ms - few_ms) / peak}
    return {"method": method, "step_ms": step_ms, "few_ms": few_ms, "gflop": work / 1e9, **shares}


def _timed(run, steps: int, clock: Callable[[], float]) -> float:
    """Seconds of one step."""
    began = clock()
    run(steps)
    return (clock() - began) / steps


def table(rows: Sequence[dict]) -> Table:
    base = next((row["share"] for row in rows if row["method"] == "dsvi"), None)
    lines = [
        [
            row["method"],
            f"{row['step_ms']:.2f}",
            f"{row['gflop']:.3f}",
            f"{row['share']:.0%}",
            "" if base is None else f"{row['share'] / base:.2f}",
            f"{row['few_ms']:.2f}",
            f"{row['rows_share']:.0%}",
        ]
        for row in rows
    ]
    title = f"Steps of two layers, batch {CASE.batch}, width {CASE.width}, M = {CASE.num_inducing}, float64"
    few = f"ms with {FEW.batch} rows"
    heads = [
        "inference",
        "ms",
        "Gflop",
        "share of the limit",
        "of that of dsvi",
        few,
        "share of what rows add",
    ]
    return Table(title, heads, lines)
