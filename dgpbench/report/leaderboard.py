"""Leaderboard of a table: ranks with bootstrap intervals, win rates, improvability, seconds.

Each dataset counts the same, whatever its number of splits. A method is ranked among those that have a value
on the same dataset and split; 1 is best, ties share. The intervals say how the numbers move with other
datasets and splits of the same kind: datasets are drawn with replacement, then splits within each.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from dgpbench.evaluate.metric_table import known_metrics
from dgpbench.report.grid import Entry, Grid, Line
from dgpbench.report.result_table import Table, community_note

DRAWS = 2000
LEVEL = 0.95
FEWER = "on fewer datasets than others, over which alone their rank, gap and seconds are: "
LATE = "unfinished: runs are missing, so that these ranks are over other datasets or splits than those above"


class Duels(NamedTuple):
    """By pair of dataset and split, and method (columns): NaN where a method has no value."""

    ranks: np.ndarray
    wins: np.ndarray  # share of the other methods that it beats; ties count half
    gaps: np.ndarray  # to the best: a difference, or for errors the share that the best would save


def duels(values: np.ndarray, better: str, ratio: bool) -> Duels:
    """Ranks, wins and gaps of values (pairs x methods); `ratio`: errors, of which shares make sense."""
    score = values if better == "higher" else -values
    here = np.isfinite(values)
    both = here[:, :, None] & here[:, None, :]
    beats = np.where(both, score[:, :, None] > score[:, None, :], False)
    equal = np.where(both, score[:, :, None] == score[:, None, :], False)
    others = both.sum(2) - 1  # without itself
    ahead = beats.transpose(0, 2, 1).sum(2)
    ties = equal.sum(2) - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        wins = (beats.sum(2) + 0.5 * ties) / others
        best = np.nanmax(np.where(here, score, -np.inf), axis=1, keepdims=True)
        gaps = (values + best) / values if ratio else best - score
    empty = ~here
    return Duels(
        np.where(empty, np.nan, 1 + ahead + 0.5 * ties),
        np.where(empty | (others < 1), np.nan, wins),
        np.where(empty, np.nan, gaps),
    )


def by_dataset(statistic: np.ndarray, datasets: np.ndarray) -> np.ndarray:
    """Mean over the splits of each dataset, then over datasets: one number per method."""
    means = [_mean(statistic[datasets == name]) for name in np.unique(datasets)]
    return _mean(np.array(means))


def intervals(statistic: np.ndarray, datasets: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap: lower and upper end for each method."""
    random = np.random.default_rng(seed)
    groups = [statistic[datasets == name] for name in np.unique(datasets)]
    chosen = random.integers(len(groups), size=(DRAWS, len(groups)))
    means = np.empty((*chosen.shape, statistic.shape[1]))
    for number, group in enumerate(groups):
        here = chosen == number
        means[here] = _mean(group[random.integers(len(group), size=(here.sum(), len(group)))])
    found = _mean(means)
    tail = 50 * (1 - LEVEL)
    ends = np.full((2, statistic.shape[1]), np.nan)
    known = np.isfinite(found).any(axis=0)
    ends[:, known] = np.nanpercentile(found[:, known], [tail, 100 - tail], axis=0)
    return ends[0], ends[1]


def _mean(rows: np.ndarray) -> np.ndarray:
    """Mean over the rows (..., rows, columns) without its NaN; NaN if there is nothing else."""
    count = np.isfinite(rows).sum(-2)
    with np.errstate(invalid="ignore"):
        return np.where(count > 0, np.nansum(rows, axis=-2) / np.maximum(count, 1), np.nan)


def board(table: Table) -> Grid:
    """One line per method, the best mean rank first; methods that lack runs after those that have all."""
    at = {(row, split): None for (row, _), cell in table.cells.items() for split in cell.values}
    pairs = list(at)
    methods = [c for c in table.spec.columns if any(table.cells[row, c].values for row in table.spec.rows)]
    values = np.array(
        [[table.cells[row, m].values.get(split, np.nan) for m in methods] for row, split in pairs]
    ).reshape(len(pairs), len(methods))
    place = next(iter(table.cells.values())).place
    metric = known_metrics().get(place.metric or "")
    ratio = bool(metric and metric.ratio)
    lines: list[Line] = []
    data: list[dict] = []
    if pairs:
        lines, data = _lines(table, methods, values, [row for row, _ in pairs], place.better, ratio)
    gap = "improvability" if ratio else "nat to the best"
    most = max((line["datasets"] for line in data), default=0)
    fewer = [line["method"] for line in data if line["datasets"] < most and not line["unfinished"]]
    notes = (
        f"rank: 1 is best, among {len(methods)} methods; in brackets the {LEVEL:.0%} bootstrap interval over "
        "datasets and splits; every dataset counts the same",
        "win rate: share of duels with the other methods on the same split that are won; ties count half",
        "improvability: share of its error that the best method of the split would save"
        if ratio
        else "nat to the best: log-likelihood that the best method of the split has more",
        "seconds: median over runs, in training with a core to run on, on whatever machine each had",
        *community_note(table.cells),
        *((FEWER + ", ".join(fewer),) if fewer else ()),
        *((LATE,) if any(_unfinished(table, method) for method in methods) else ()),
        *(("none of these has been run yet",) if not pairs else ()),
    )
    return Grid(
        f"{table.spec.name}-board",
        f"{table.title}: ranks",
        place.metric or "",
        ("method",),
        ("rank", "win rate", gap, "datasets", "splits", "seconds"),
        tuple(lines),
        data,
        notes,
    )


def _lines(
    table: Table, methods: Sequence[str], values: np.ndarray, rows: Sequence[str], better: str, ratio: bool
) -> tuple[list[Line], list[dict]]:
    datasets = np.array(rows)
    found = duels(values, better, ratio)
    means = {name: by_dataset(part, datasets) for name, part in found._asdict().items()}
    ends = {name: intervals(getattr(found, name), datasets) for name in ("ranks", "wins")}
    lines, data = [], []
    late = [_unfinished(table, method) for method in methods]
    for i in sorted(range(len(methods)), key=lambda i: (late[i], means["ranks"][i])):
        low, high = ends["ranks"][0][i], ends["ranks"][1][i]
        here = np.isfinite(values[:, i])
        seconds = _seconds(table, methods[i])
        line: dict[str, Any] = {
            "method": methods[i],
            "rank": float(means["ranks"][i]),
            "rank_low": float(low),
            "rank_high": float(high),
            "win_rate": float(means["wins"][i]),
            "win_rate_low": float(ends["wins"][0][i]),
            "win_rate_high": float(ends["wins"][1][i]),
            "gap": float(means["gaps"][i]),
            "datasets": len(set(datasets[here])),
            "splits": int(here.sum()),
            "seconds": seconds,
            "unfinished": late[i],
            "n_community": sum(table.cells[row, methods[i]].community for row in table.spec.rows),
        }
        data.append(line)
        wins = f"{line['win_rate']:.0%} [{line['win_rate_low']:.0%}, {line['win_rate_high']:.0%}]"
        entries = (
            Entry(
                f"{line['rank']:.2f} [{low:.2f}, {high:.2f}]",
                value=line["rank"],
                others=line["n_community"] > 0,
            ),
            Entry(wins if np.isfinite(line["win_rate"]) else "", value=line["win_rate"]),
            Entry(f"{line['gap']:.1%}" if ratio else f"{line['gap']:.3f}", value=line["gap"]),
            Entry(str(line["datasets"]), value=line["datasets"]),
            Entry(str(line["splits"]), value=line["splits"]),
            Entry("" if seconds is None else f"{seconds:.1f}", value=seconds),
        )
        lines.append(Line((f"{methods[i]} (unfinished)" if late[i] else methods[i],), entries))
    return lines, data


def _unfinished(table: Table, method: str) -> bool:
    """Whether runs of a method are missing; failed ones are not."""
    return any(table.cells[row, method].missing for row in table.spec.rows)


def _seconds(table: Table, method: str) -> float | None:
    spent = [
        unit.record.core_seconds
        for row in table.spec.rows
        for unit in table.cells[row, method].units
        if unit.record.done
    ]
    known = [value for value in spent if value is not None]
    return median(known) if known else None
