"""The reporter: plain lines at a modest rate, a live line on a terminal."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from dgpbench import progress


def reporter(verbosity=0, terminal=False):
    out, err = io.StringIO(), io.StringIO()
    made = progress.Reporter(
        verbosity,
        out=Console(file=out, width=100),
        err=Console(file=err, width=100, force_terminal=terminal, highlight=False),
    )
    return made, out, err


def test_plain_lines_are_few_and_the_last_is_kept(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    report, _, err = reporter()
    report.start(1000, None)
    for step in range(1, 1001):
        now[0] = step / 32  # 31 seconds in all
        report.update(step, -float(step), 32.0, (1000 - step) / 32)
    report.stop()
    report.stop()
    steps = [line.split("  ")[0] for line in err.getvalue().splitlines()]
    assert steps == ["step 1/1,000", "step 321/1,000", "step 641/1,000", "step 961/1,000", "step 1,000/1,000"]


def test_live_line_on_a_terminal():
    report, _, err = reporter(terminal=True)
    report.start(None, 60.0)
    report.update(1234, 5.0, 1500.0, 59.0)
    report.note("a [note] in between")
    report.stop()
    assert "step 1,234  bound 5  1,500 steps/s  0:59 left" in err.getvalue() and "a [note]" in err.getvalue()


def test_evaluation_has_a_line_where_it_takes_long(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    report, _, err = reporter()
    for done in range(0, 5000, 1000):
        now[0] = done / 200
        report.rows(done, 4000)
    assert err.getvalue().splitlines() == [
        "evaluating  2,000/4,000 test rows  200 rows/s  0:10 left",
        "evaluating  4,000/4,000 test rows  200 rows/s  0:00 left",
    ]
    quick, _, err = reporter()
    quick.rows(0, 50)
    quick.rows(50, 50)
    assert err.getvalue() == ""
    live, _, err = reporter(terminal=True)
    live.rows(0, 50)
    live.rows(50, 50)
    assert "evaluating  0/50 test rows" in err.getvalue() and live._bar is None


def record_of(metrics, training=None, evaluation=None, whole=None):
    return SimpleNamespace(
        metrics=metrics, training_seconds=training, evaluate_seconds=evaluation, wall_seconds=whole
    )


def test_quiet():
    report, out, err = reporter(-1)
    report.plan([("a", "b")])
    report.note("c")
    report.start(10, None)
    report.update(1, 1.0, 1.0, None)
    report.stop()
    report.result(record_of({"test_rmse": 1.5}), "here")
    assert err.getvalue() == "" and "1.5000" in out.getvalue() and "record: here" in out.getvalue()


@pytest.mark.parametrize("seconds, text", [(5, "0:05"), (65.4, "1:05"), (7384, "2:03:04"), (-1, "0:00")])
def test_clock(seconds, text):
    assert progress.clock(seconds) == text


def test_metric_rows_pair_the_units():
    rows = progress.metric_rows(
        {"new": 2, "test_rmse": 0.5, "test_loglik_kde_std": -0.1, "test_rmse_std": 0.05}
    )
    assert rows == [
        ("log-likelihood (KDE)", "", "-0.1000"),
        ("RMSE", "0.5000", "0.0500"),
        ("new", "2.0000", ""),
    ]


def test_times_of_training_and_evaluation_are_told_apart():
    record = record_of({"test_loglik": -1.0}, 12.345, 1.25, 15.8)
    assert progress.times(record) == "training 12.3 s, evaluation 1.25 s, in all 15.8 s"
    assert progress.times(record_of({}, None, None, 0.5)) == "in all 0.5 s"
    report, out, _ = reporter()
    report.result(record, "x/record.json")
    lines = out.getvalue().splitlines()
    assert lines[-2:] == ["training 12.3 s, evaluation 1.25 s, in all 15.8 s", "record: x/record.json"]
