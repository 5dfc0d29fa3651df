"""Arithmetic on perf.json: medians, ratios, shares of the matmul limit, and the targets."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks import flops
from benchmarks.cases import CASES, Case
from benchmarks.systems import SYSTEMS

COLUMNS = {
    "(a) M=100": ("a-sgp", "a-dgp2", "a-dgp3", "a-dgp4", "a-dgp5"),
    "(b) M=100": ("b-sgp", "b-dgp2", "b-dgp3", "b-dgp4", "b-dgp5"),
    "a SGP500": ("a-sgp500",),
    "b SGP500": ("b-sgp500",),
}
PAIRS = {  # ours, peer: the ratio wanted in each column; none is wanted where the peer may not stay finite
    ("dgpbench-float64", "gpflux-float64"): (2.2, 1.6, 2.5, 1.0),
    ("dgpbench-mixed", "gpflux-float64"): (3.5, 2.3, 3.0, 1.3),
    ("dgpbench-mixed", "gpytorch-float32"): (2.5, 3.5, 1.2, 1.0),
    ("own-mixed", "gpytorch-float32"): (None, 4.0, None, None),  # the same model: a kernel for each output
    ("own-float32", "gpytorch-float32"): (None, None, None, None),
    ("dgpbench-mixed", "gpflux-float32"): (None, None, None, None),
    ("dgpbench-float64", "gpflow-float64"): (None, None, None, None),
}
WORST = 0.9  # of its target is the least that a single cell may reach
LIMIT_GOAL = 0.6  # share of the matmul limit that mixed should reach in (b)
IWVI_CASE, IWVI_MOST, IWVI_LIMIT = (
    "c-lvgpgp",
    3.0,
    0.5,
)  # step of iwvi over that of vi; its share of the limit


@dataclass(frozen=True)
class Summary:
    """One pair of systems in one column: peer's time over ours."""

    ours: str
    peer: str
    column: str
    target: float | None
    ratios: dict[str, float]  # by case; only where both are finite
    expected: int  # cases of the column

    @property
    def mean(self) -> float | None:
        return geometric_mean(list(self.ratios.values()))

    @property
    def worst(self) -> tuple[str, float] | None:
        return min(self.ratios.items(), key=lambda item: item[1]) if self.ratios else None

    @property
    def verdict(self) -> str:
        if not self.ratios:
            return "not measured"
        if self.target is None:
            return "no target"
        good = self.mean >= self.target and self.worst[1] >= WORST * self.target
        if len(self.ratios) < self.expected:
            found = f"{len(self.ratios)} of {self.expected} cells"
            return f"incomplete ({found}, {'met' if good else 'not met'} there)"
        return "met" if good else "not met"


def geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(statistics.fmean(map(math.log, values))) if values else None


def cells_of(results: dict) -> dict[tuple[str, str], dict]:
    return {(cell["case"], cell["system"]): cell for cell in results["cells"]}


def median_ms(cell: dict | None) -> float:
    """Median step; NaN for a cell that is missing, failed, or whose numbers are not finite."""
    if cell is None or cell["status"] != "ok" or not cell["step_ms"]:
        return math.nan
    return statistics.median(cell["step_ms"])


def ratio(cells: dict, case: str, ours: str, peer: str) -> float:
    """Ratio of step times: median of the peer over ours."""
    return median_ms(cells.get((case, peer))) / median_ms(cells.get((case, ours)))


def summaries(results: dict) -> list[Summary]:
    """Every pair in every column of which at least one case was run."""
    cells, out = cells_of(results), []
    for (ours, peer), targets in PAIRS.items():
        for (column, cases), target in zip(COLUMNS.items(), targets, strict=True):
            taken = [c for c in cases if all(SYSTEMS[name].takes(CASES[c]) for name in (ours, peer))]
            if not set(taken) & results["cases"].keys():
                continue
            found = {case: ratio(cells, case, ours, peer) for case in taken}
            finite = {case: value for case, value in found.items() if math.isfinite(value)}
            out.append(Summary(ours, peer, column, target, finite, len(taken)))
    return out


def peak(results: dict, case: str) -> dict[str, float]:
    """Matmul peak in flop/s by dtype, in turns with this case: the better library's median, or NaN."""
    peaks = {}
    for dtype in ("float64", "float32"):
        rates = results["peak_gflops"].get(case, {}).get(dtype, {})
        medians = [statistics.median(found) for found in rates.values() if found]
        peaks[dtype] = 1e9 * max(medians, default=math.nan)
    return peaks


def rate_and_share(results: dict, cell: dict) -> tuple[float, float]:
    """Achieved GFLOP/s, and the matmul limit's time over the measured one."""
    system = SYSTEMS[cell["system"]]
    case = system.at(Case(**results["cases"][cell["case"]]))
    work = flops.count(case, flops.exact(system.library, system.precision))
    seconds, limit = median_ms(cell) / 1e3, peak(results, cell["case"])
    return work.total / seconds / 1e9, flops.limit_seconds(work, system.precision, limit) / seconds


def summary_lines(results: dict) -> list[str]:
    """One line per target, then what is reported without one."""
    lines = []
    for s in summaries(results):
        head = f"{s.ours} against {s.peer}, {s.column}: "
        if not s.ratios:
            lines.append(head + s.verdict)
            continue
        wanted = "" if s.target is None else f", target {s.target:g}x"
        name, value = s.worst
        lines.append(f"{head}{s.mean:.2f}x (worst {name} {value:.2f}x){wanted}: {s.verdict}")
    cells = cells_of(results)
    shares = [
        rate_and_share(results, cell)[1]
        for case in COLUMNS["(b) M=100"]
        if not math.isnan(median_ms(cell := cells.get((case, "dgpbench-mixed"))))
    ]
    lines += _iwvi_lines(results, cells)
    if shares:
        share = geometric_mean(shares)
        verdict = "met" if share >= LIMIT_GOAL else "not met"
        lines.append(
            f"dgpbench-mixed, (b) M=100: {share:.0%} of the matmul limit (least {min(shares):.0%}),"
            f" goal {LIMIT_GOAL:.0%}: {verdict}"
        )
    return lines


def _iwvi_lines(results: dict, cells: dict) -> list[str]:
    """Cost of importance weighting: its step over that of plain variational inference, and its limit."""
    lines = []
    for precision in ("float64", "mixed"):
        cell = cells.get((IWVI_CASE, f"iwvi-{precision}"))
        cost = ratio(cells, IWVI_CASE, f"dgpbench-{precision}", f"iwvi-{precision}")
        if math.isnan(cost):
            continue
        share = rate_and_share(results, cell)[1]
        verdicts = ("met" if cost <= IWVI_MOST else "not met", "met" if share >= IWVI_LIMIT else "not met")
        lines.append(
            f"LV-GP-GP IWVI, K=5, {precision}: {cost:.2f}x the step of VI, at most {IWVI_MOST:g}x wanted: "
            f"{verdicts[0]}; {share:.0%} of the matmul limit, goal {IWVI_LIMIT:.0%}: {verdicts[1]}"
        )
    return lines
