"""Calibration and accuracy against training time, as grids and as the numbers behind charts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from dgpbench.evaluate.metrics import ACCURACY, AUC, BRIER, COVERAGE, CRPS, ECE, PIT_KS
from dgpbench.report.grid import Grid, plain
from dgpbench.report.result_table import MARK, Table, community_note

BARS = " ▁▂▃▄▅▆▇█"
CALIBRATION = {COVERAGE: ".3f", PIT_KS: ".3f", CRPS: ".4g"}
PIT_NOTES = (
    "coverage of the central 95 % interval (0.95 is calibrated); KS distance of PIT values from uniform "
    "(0); CRPS in original units (lower is better)",
    "PIT histogram: ten bins, half height is calibrated; U: too narrow, hump: too wide, slope: biased",
)
OF_CLASSES = {ECE: ".3f", BRIER: ".3f", AUC: ".3f", ACCURACY: ".3f"}
CLASS_NOTES = (
    f"{ECE}: mean of |accuracy - confidence| over 15 bins of confidence (0 is calibrated); Brier score: "
    "lower is better; AUC: of more than two classes the mean of each against the rest",
)


def calibration(table: Table) -> Grid:
    """Coverage of central 95 % intervals, distance of PIT from uniform, CRPS, PIT histogram, over splits; of
    classes calibration error, Brier score, AUC and accuracy."""
    classes = any("reliability" in unit.record.details for c in table.cells.values() for unit in c.units)
    metrics = OF_CLASSES if classes else CALIBRATION
    lines = []
    for (row, column), cell in table.cells.items():
        done = [unit.record for unit in cell.units if unit.record.done]
        if not done:
            continue
        line: dict[str, object] = {
            "dataset": row,
            "model": column,
            "splits": cell.count + MARK * bool(cell.community),
        }
        for metric in metrics:
            found = [v for r in done if (v := r["metrics"].get(metric)) is not None]
            line[metric] = sum(found) / len(found) if found else float("nan")
        histograms = [h for r in done if (h := r["details"].get("pit_histogram"))]
        line["pit_histogram"] = pit_bars(pd.DataFrame(histograms).mean().tolist()) if histograms else ""
        lines.append(line)
    columns = ["dataset", "model", "splits", *metrics, *(() if classes else ("pit_histogram",))]
    notes = (*(CLASS_NOTES if classes else PIT_NOTES), *community_note(table.cells))
    return plain(
        f"Calibration: {table.spec.title}",
        pd.DataFrame(lines, columns=columns),
        metrics,
        name=f"{table.spec.name}-calibration",
        heads=2,
        notes=notes,
    )


def pit_bars(shares: list[float]) -> str:
    """Ten shares as bars; a share of 0.1 has half the height."""
    return "".join(BARS[min(8, max(0, round(40 * share)))] for share in shares)


def frontier_frame(table: Table) -> pd.DataFrame:
    """Value and training seconds per cell; `frontier` marks what no other model of the dataset beats."""
    lines = []
    for (row, column), cell in table.cells.items():
        seconds: dict[int, list[float]] = {}
        for unit in cell.units:
            spent = unit.record.core_seconds
            if unit.record.done and spent is not None:
                seconds.setdefault(unit.record.split, []).append(spent)
        common = [split for split in cell.values if split in seconds]
        if common:
            mean_seconds = sum(sum(seconds[s]) / len(seconds[s]) for s in common) / len(common)
            value = sum(cell.values[s] for s in common) / len(common)
            lines.append((row, column, len(common), value, mean_seconds, cell.place.better))
    frame = pd.DataFrame(lines, columns=["dataset", "model", "splits", "value", "seconds", "better"])
    frame["frontier"] = [_undominated(frame, line) for line in frame.itertuples()]
    return frame.drop(columns="better")


def _undominated(frame: pd.DataFrame, line) -> bool:
    others = frame[frame.dataset == line.dataset]
    sign = 1 if line.better == "higher" else -1
    as_good = (sign * others.value >= sign * line.value) & (others.seconds <= line.seconds)
    strictly = (sign * others.value > sign * line.value) | (others.seconds < line.seconds)
    return not (as_good & strictly).any()


def frontier(table: Table) -> Grid:
    """One line per cell with a value and training seconds, marked if no other model is better in both."""
    frame = frontier_frame(table)
    shown = frame.assign(frontier=["yes" if on else "" for on in frame.frontier])
    if any(cell.community for cell in table.cells.values()):
        places = zip(frame.dataset, frame.model, strict=True)
        shown["community"] = [table.cells[at].community for at in places]
    notes = (
        "seconds of training in which the run had a core, on whatever machine and threads; yes: no other "
        "model of this dataset is at least as good and as quick, and better in one",
        *community_note(table.cells),
    )
    return plain(
        f"Accuracy against training seconds: {table.spec.title}",
        shown,
        {"value": ".3f", "seconds": ".1f"},
        name=f"{table.spec.name}-frontier",
        heads=2,
        notes=notes,
    )


def pit_curves(table: Table) -> pd.DataFrame:
    """dataset, model, splits, level, share: cumulated mean histograms of PIT values."""
    lines = []
    for (row, column), cell in table.cells.items():
        found = [h for unit in cell.units if (h := unit.record.details.get("pit_histogram"))]
        if found:
            share = np.concatenate([[0.0], np.cumsum(np.mean(found, axis=0))])
            level = np.linspace(0, 1, len(share))
            lines += [(row, column, len(found), x, y) for x, y in zip(level, share, strict=True)]
    return pd.DataFrame(lines, columns=["dataset", "model", "splits", "level", "share"])


def reliability_curves(table: Table) -> pd.DataFrame:
    """dataset, model, splits, level, share: mean confidence and accuracy of each bin that has rows."""
    lines = []
    for (row, column), cell in table.cells.items():
        found = [r for unit in cell.units if (r := unit.record.details.get("reliability"))]
        if not found:
            continue
        count = np.array([r["count"] for r in found])  # splits, bins
        sums = [
            (count * np.array([[v or 0.0 for v in r[name]] for r in found])).sum(0)
            for name in ("confidence", "accuracy")
        ]
        total = count.sum(0)
        full = total > 0
        level, share = (s[full] / total[full] for s in sums)
        lines += [(row, column, len(found), x, y) for x, y in zip(level, share, strict=True)]
    return pd.DataFrame(lines, columns=["dataset", "model", "splits", "level", "share"])
