"""Growth and evaluation: slopes, tables and what is timed."""

import json

import numpy as np
import pytest

from benchmarks import evaluation, growth, rows

SMALL = ["model.num_inducing=5", "engine.xla=false", "threads=1"]


def test_slope_is_the_exponent():
    x = np.array([10.0, 100.0, 1000.0])
    assert growth.slope(list(zip(x, 3 * x**1.7, strict=True))) == pytest.approx(1.7)
    assert growth.slope([(1.0, 2.0)]) is None


def test_growth_tables_and_picture(tmp_path):
    steps = [{"axis": "batch", "value": v, "precision": "mixed", "step_ms": ms}
             for v, ms in ((100, 1.0), (1000, 2.0), (10_000, 20.0), (20_000, None))]  # fmt: skip
    table = growth.step_table(steps)
    times = "100: 1.0, 1,000: 2.0, 10,000: 20.0, 20,000: failed"
    assert table.rows == [["batch", "mixed", times, "0.65", "1.00"]]
    found = [{"axis": "rows-disk", "value": 1000, "steps_per_second": 50.0, "own_mb": 512.4, "peak_mb": 900.0,
              "load_seconds": 1.25}]  # fmt: skip
    assert growth.rows_table(found).rows == [["disk", "1,000", "50.0", "512", "900", "1.2"]]
    growth.draw(steps, found, tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 5000


@pytest.mark.slow
def test_the_rows_study_streams_what_is_computed(tmp_path, monkeypatch):
    """A streamed run of computed rows: its steps are counted, its minibatches the rows of the split."""
    from dgpbench.data.split import Split

    seen = []
    take = Split.take_train
    monkeypatch.setattr(Split, "take_train", lambda self, r: seen.append(np.asarray(r)) or take(self, r))
    words = ["dataset=arm8_rows", "dataset.n=3000", "engine.memory_limit_gb=1e-6", "budget.seconds=0.3",
             *SMALL, f"paths.datasets={tmp_path}"]  # fmt: skip
    found = json.loads(json.dumps(rows.measure(words)))
    assert found["steps"] > 3 and found["steps_per_second"] > 1
    assert 50 < found["own_mb"] <= found["peak_mb"]
    assert len(seen[-1]) % 1000 == 0 and max(r.max() for r in seen) < 2700
    assert not list(tmp_path.iterdir())  # nothing is stored


@pytest.mark.slow
@pytest.mark.long
def test_evaluation_is_timed_with_and_without_metrics():
    small = [*SMALL, "dataset.n=500", "protocol.test_samples=3"]
    found = evaluation.measure(["dgp2"], 1, small, print)
    assert found[0]["rows"] == 50 and found[0]["samples"] == 3
    assert 0 < found[0]["predict_seconds"] < found[0]["seconds"]
    known = {"rows": 50, "seconds": 0.5, "predict_seconds": 0.1, "first_seconds": 2}
    line = evaluation.table([found[0] | known])
    assert line.rows[0][3:] == ["500", "100", "80%", "2.0"]
