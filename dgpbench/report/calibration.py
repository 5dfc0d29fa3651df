"""Calibration of the runs behind a table: coverage, PIT, CRPS; of classes ECE, Brier score, AUC."""

from __future__ import annotations

import pandas as pd

from dgpbench.evaluate.metrics import ACCURACY, AUC, BRIER, COVERAGE, CRPS, ECE, PIT_KS
from dgpbench.report.grid import Grid, plain
from dgpbench.report.others import MARK, others_note
from dgpbench.report.table import Table

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
    classes = any("reliability" in unit.record["details"] for c in table.cells.values() for unit in c.units)
    metrics = OF_CLASSES if classes else CALIBRATION
    lines = []
    for (row, column), cell in table.cells.items():
        done = [unit.record for unit in cell.units if unit.record["status"] == "done"]
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
    notes = (*(CLASS_NOTES if classes else PIT_NOTES), *others_note(table.cells))
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
