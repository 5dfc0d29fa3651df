"""Beyond the papers: which tables there are, calibration, and accuracy against training time."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dgpbench.report.grid import Grid, plain
from dgpbench.report.table import Table

BARS = " ▁▂▃▄▅▆▇█"
CALIBRATION = {"test_coverage95": ".3f", "test_pit_ks": ".3f", "test_crps": ".4g"}
PIT_NOTES = (
    "coverage of the central 95 % interval (0.95 is calibrated); KS distance of PIT values from uniform "
    "(0); CRPS in original units (lower is better)",
    "PIT histogram: ten bins, half height is calibrated; U: too narrow, hump: too wide, slope: biased",
)
OF_CLASSES = {"test_ece": ".3f", "test_brier": ".3f", "test_auc": ".3f", "test_accuracy": ".3f"}
CLASS_NOTES = (
    "test_ece: mean of |accuracy - confidence| over 15 bins of confidence (0 is calibrated); Brier score: "
    "lower is better; AUC: of more than two classes the mean of each against the rest",
)


def overview(tables: list[Table], folder: Path) -> Grid:
    """One line per table: what it is and how far it has been run."""
    lines = [
        {
            "table": " ".join([t.spec.name, *t.spec.chosen]),
            "what": t.spec.title,
            "ours": f"{t.done}/{t.expected}" if t.expected else "no experiment",
            "failed": t.failed,
            "published cells": sum(c.published is not None for c in t.cells.values()),
        }
        for t in tables
    ]
    empty = not any(cell.units for table in tables for cell in table.cells.values())
    begin = "no record of these tables here; dgpbench run experiment=dsvi2017_sgp dataset=boston makes one"
    notes = (
        *((begin,) if empty else ()),
        f"records from {folder} and its reference/; ours: splits done / expected",
        "dgpbench tables 5.1 prints one; --compare, --stats, --calibration, --frontier, --missing, --format",
    )
    return plain("Tables", pd.DataFrame(lines), name="overview", notes=notes)


def calibration(table: Table) -> Grid:
    """Coverage of central 95 % intervals, distance of PIT from uniform, CRPS, PIT histogram, over splits; of
    classes calibration error, Brier score, AUC and accuracy."""
    classes = any("reliability" in unit.record["details"] for c in table.cells.values() for unit in c.units)
    metrics = OF_CLASSES if classes else CALIBRATION
    lines = []
    for (row, column), cell in table.cells.items():
        done = [unit.record for unit in cell.units if unit.record["status"] == "done"]
        if not done:
            continue
        line = {"dataset": row, "model": column, "splits": cell.count}
        for metric in metrics:
            found = [v for r in done if (v := r["metrics"].get(metric)) is not None]
            line[metric] = sum(found) / len(found) if found else float("nan")
        histograms = [h for r in done if (h := r["details"].get("pit_histogram"))]
        line["pit_histogram"] = pit_bars(pd.DataFrame(histograms).mean().tolist()) if histograms else ""
        lines.append(line)
    columns = ["dataset", "model", "splits", *metrics, *(() if classes else ("pit_histogram",))]
    notes = CLASS_NOTES if classes else PIT_NOTES
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
            spent = unit.record["training"].get("seconds", unit.record["wall_seconds"])
            if unit.record["status"] == "done" and spent is not None:
                seconds.setdefault(unit.record["split"], []).append(spent)
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
    frame = frontier_frame(table)
    shown = frame.assign(frontier=["yes" if on else "" for on in frame.frontier])
    notes = (
        "seconds of training as recorded, on whatever machine and threads the run had; yes: no other model "
        "of this dataset is at least as good and as quick, and better in one",
    )
    return plain(
        f"Accuracy against training seconds: {table.spec.title}",
        shown,
        {"value": ".3f", "seconds": ".1f"},
        name=f"{table.spec.name}-frontier",
        heads=2,
        notes=notes,
    )
