"""Records of classification in tables, views and figures, and what commands show of them."""

import json

import pytest
from report_units import record, unit, units, write

from dgpbench.cli import main
from dgpbench.papers import figures, specs
from dgpbench.papers.paper_cells import Records
from dgpbench.papers.paper_table import build
from dgpbench.report.diagnostics import calibration, reliability_curves

HEART = ["protocol.train_fraction=0.63"]
METRICS = {"test_loglik": -0.4, "test_accuracy": 0.8, "test_error": 0.2, "test_auc": 0.9, "test_brier": 0.15,
           "test_ece": 0.05}  # fmt: skip


def bins(**full):
    """Reliability data with rows in a few of the fifteen bins: b10=(rows, confidence, accuracy)."""
    at = {int(name[1:]): value for name, value in full.items()}
    columns = [[at[i][j] if i in at else (0 if j == 0 else None) for i in range(15)] for j in range(3)]
    return {"reliability": dict(zip(("count", "confidence", "accuracy"), columns, strict=True))}


def heart(split, metrics, details):
    return unit("matthews2016_sgp8", "statlog-heart", split, metrics, overrides=HEART, details=details)


@pytest.mark.slow
def test_ours_beside_published():
    """Published 0.42 with a 2-sigma half-width of 0.11, so a standard error of 0.055."""
    found = units("matthews2016_sgp8", "statlog-heart", [-0.40, -0.44, -0.45], overrides=HEART)
    found += units("matthews2016_sgp30", "pima", [-0.5], overrides=["protocol.train_fraction=0.6095"])
    table = build(specs.load("matthews4.3"), Records(found))
    cell, ours = table.cells["heart", "KLSp M=8"], table.ours("heart", "KLSp M=8")
    assert ours.mean == pytest.approx(0.43) and cell.count == "3/10"
    assert (cell.published.value, cell.published.error) == (0.42, 0.055)
    assert table.cells["diabetes", "KLSp M=30%"].values == {0: 0.5}
    assert table.cells["diabetes", "KLSp M=30%"].published.value == 0.51
    assert table.cells["thyroid", "Logistic"].published is None
    assert table.cells["cancer", "KLSp M=8"].absent == "no dataset cancer in the catalogue"
    for row, dataset, n, train in (
        ("thyroid", "thyroid_ida", 215, 140), ("heart", "statlog-heart", 270, 170),
        ("twonorm", "twonorm", 7400, 400), ("ringnorm", "ringnorm", 7400, 400),
        ("german", "german", 1000, 700),
        ("waveform", "waveform_ida", 5000, 400), ("diabetes", "pima", 768, 468),
    ):  # fmt: skip
        place = table.cells[row, "KLSp M=8"].place
        (fraction,) = [float(text.partition("=")[2]) for text in place.overrides]
        assert place.dataset == dataset and int(n * fraction) == train


def test_calibration_of_classes():
    details = bins(b10=(3, 0.7, 1.0))
    other = METRICS | {"test_ece": 0.15, "test_auc": None}
    found = [heart(0, METRICS, details), heart(1, other, details)]
    grid = calibration(build(specs.load("matthews4.3"), Records(found)))
    line = grid.data.iloc[0]
    assert "pit_histogram" not in grid.data and "test_crps" not in grid.data
    assert line.test_ece == pytest.approx(0.1) and line.test_auc == 0.9 and line.test_brier == 0.15


def test_reliability_figure_pools_rows(tmp_path):
    found = [
        heart(0, METRICS, bins(b10=(3, 0.7, 1.0), b14=(2, 0.99, 0.5))),
        heart(1, METRICS, bins(b10=(1, 0.66, 0.0))),
    ]
    frame = reliability_curves(build(specs.load("matthews4.3"), Records(found)))
    assert frame.level.tolist() == pytest.approx([(3 * 0.7 + 0.66) / 4, 0.99])
    assert frame.share.tolist() == pytest.approx([0.75, 0.5]) and set(frame.splits) == {2}
    picture = figures.make(figures.find("calibration-matthews4.3"), found)
    assert len(picture.data) == 2 and "below: overconfident" in picture.notes[0]


def test_a_dataset_with_its_own_test_rows_has_one_split():
    """Its records count once, also where the protocol has twenty splits."""
    tree = {
        "title": "t", "units": "u", "metric": "test_accuracy", "rows": ["mnist", "iris"],
        "columns": [{"label": "SGP", "experiment": "dsvi2017_sgp"}],
    }  # fmt: skip
    found = units("dsvi2017_sgp", "mnist", [0.97], metric="test_accuracy")
    table = build(specs.parse("t", tree), Records(found))
    assert table.cells["mnist", "SGP"].count == "1/1" and table.cells["mnist", "SGP"].values == {0: 0.97}
    assert table.cells["iris", "SGP"].count == "0/20"


def test_show_has_the_columns_of_classes(tmp_path, capsys):
    write(tmp_path, record("matthews2016_sgp8", "iris", 0, METRICS))
    assert main(["show", "--results", str(tmp_path), "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["test_accuracy"], row["test_auc"], row["test_loglik"]) == (0.8, 0.9, -0.4)
    assert "test_rmse" not in row
