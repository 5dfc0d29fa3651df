"""The race as tables and a figure: scores by time, and how dgpbench stands beside each peer."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from benchmarks.race import OURS, RACERS, at, behind, reached
from benchmarks.tables import NOTHING, Table

TIMES = (5.0, 10.0, 20.0, 50.0, 100.0, 260.0)  # processor seconds
FIFTH, THIRD = 0.2, 1 / 3  # of a peer's seconds: the target on the median set, and on the worst


def _of(runs: Sequence[dict], dataset: str, system: str) -> list[dict]:
    chosen = [run for run in runs if (run["dataset"], run["system"]) == (dataset, system)]
    return sorted(chosen, key=lambda run: (run["split"], run["seed"]))


def _names(runs: Sequence[dict], name: str) -> list[str]:
    return list(dict.fromkeys(run[name] for run in runs))


def _mean(values: Sequence[float | None], form: str = "{:.3f}") -> str:
    known = [value for value in values if value is not None]
    return form.format(statistics.fmean(known)) if known and len(known) == len(values) else NOTHING


def _score(run: dict, seconds: float) -> float | None:
    """The score after about so many seconds; None if the run ended before."""
    ran = run["points"] and run["points"][-1][1] >= 0.95 * seconds
    return at(run, seconds * 1.05) if ran else None


def scores(runs: Sequence[dict]) -> Table:
    """Test log-likelihood after so many seconds, mean over splits; seconds of start-up."""
    longest = max((run["points"][-1][1] for run in runs if run["points"]), default=0.0)
    times = [t for t in TIMES if t <= longest * 1.05] or [longest]
    lines = []
    for dataset in _names(runs, "dataset"):
        for system in _names(runs, "system"):
            own = _of(runs, dataset, system)
            cells = [_mean([_score(run, t) for run in own]) for t in times]
            startup = _mean([run["startup"][0] if run["startup"] else None for run in own], "{:.1f}")
            steps = _mean([run["points"][-1][0] if run["points"] else None for run in own], "{:,.0f}")
            failed = sum(run["reason"] is not None for run in own)
            lines.append([dataset, system, *cells, steps, startup, str(failed) if failed else NOTHING])
    header = ["dataset", "system", *(f"{t:g} s" for t in times), "steps", "start-up s", "ended early"]
    title = (
        "Test log-likelihood, standardised units, after so many processor seconds of training on one thread"
    )
    return Table(title, header, lines)


def verdicts(runs: Sequence[dict], ours: str = OURS) -> Table:
    """Beside each peer: the largest deficit at an equal time from 5 s on, and the share of the peer's seconds
    in which dgpbench has the peer's last value."""
    lines = []
    for system in _names(runs, "system"):
        if RACERS[system].library == "dgpbench":
            continue
        shares: list[float] = []
        for dataset in _names(runs, "dataset"):
            mine, theirs = _of(runs, dataset, ours), _of(runs, dataset, system)
            if not mine or not all(run["points"] for run in [*mine, *theirs]):
                lines.append([system, dataset, *[NOTHING] * 5])
                continue
            times = [cpu for run in theirs for _, cpu, _, _ in run["points"] if cpu >= TIMES[0]]
            when, gap, allowed = behind(mine, theirs, sorted(times))
            found = [reached(a, b["points"][-1][3]) for a, b in zip(mine, theirs, strict=True)]
            each = [t / b["points"][-1][1] for t, b in zip(found, theirs, strict=True) if t is not None]
            share = statistics.fmean(each) if len(each) == len(found) else float("inf")
            shares.append(share)
            shown = f"{share:.2f}" if share < float("inf") else "not reached"
            deficit = [NOTHING] * 3  # the race was too short for one
            if times:
                deficit = [
                    f"{gap:+.3f} at {when:.0f} s",
                    f"{allowed:+.3f}",
                    "yes" if gap >= allowed else "no",
                ]
            lines.append([system, dataset, *deficit, shown, ""])
        if shares:
            middle, worst = statistics.median(shares), max(shares)
            told = "yes" if middle <= FIFTH and worst <= THIRD else "no"
            lines.append([system, "median, worst", "", "", "", f"{middle:.2f}, {worst:.2f}", told])
    header = ["peer", "dataset", "largest deficit", "allowed", "met", "share of its seconds", "met"]
    return Table(
        f"{ours} beside each peer (targets: 0.2 on the median set, 0.33 on the worst)", header, lines
    )


def rows(runs: Sequence[dict]) -> list[dict]:
    labels = ("dataset", "split", "seed", "system")
    numbers = ("step", "processor_seconds", "wall_seconds", "log_likelihood")
    return [
        {name: run[name] for name in labels} | dict(zip(numbers, point, strict=True))
        for run in runs
        for point in run["points"]
    ]


def draw(runs: Sequence[dict], path: Path) -> None:
    """A panel for each dataset: score against processor seconds."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    datasets, systems = _names(runs, "dataset"), _names(runs, "system")
    columns = min(3, len(datasets))
    figure = Figure(figsize=(4 * columns, 3.2 * -(-len(datasets) // columns) + 0.6), layout="constrained")
    FigureCanvasAgg(figure)
    handles = {}
    for i, dataset in enumerate(datasets):
        axes = figure.add_subplot(-(-len(datasets) // columns), columns, i + 1)
        for number, system in enumerate(systems):
            for run in _of(runs, dataset, system):
                if run["points"]:
                    _, cpu, _, values = zip(*run["points"], strict=True)
                    (handles[system],) = axes.plot(cpu, values, color=f"C{number}", linewidth=1.2)
        axes.set_xscale("log")
        late = [p[3] for run in runs if run["dataset"] == dataset for p in run["points"] if p[1] >= 2.0]
        if late:
            axes.set_ylim(min(late), max(late) + 0.05 * (max(late) - min(late) + 0.01))
        axes.set_title(dataset, loc="left")
        axes.set_xlabel("processor seconds of training")
        if i % columns == 0:
            axes.set_ylabel("test log-likelihood")
    figure.legend(handles.values(), list(handles), loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(path, dpi=120)
