"""`dgpbench perf`: the time of a step from what training measured."""

import pytest

from dgpbench.cli import main, perf
from dgpbench.engine.context import TrainResult

SMALL = ["dataset=bimodal", "dataset.n=120", "model=sgp", "model.num_inducing=8", "engine.xla=false"]


def test_the_time_of_a_step_is_seconds_over_steps(monkeypatch, capsys, tmp_path):
    found = TrainResult(steps=50, seconds=2.0, compile_seconds=1.5)
    monkeypatch.setattr(perf, "step_times", lambda cfg, split, seconds: found)
    assert main(["perf", *SMALL, "budget.steps=1000", f"paths.datasets={tmp_path}", "--seconds", "3"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "step 40 ms, 25 steps/s (mean of 50 steps)" in out and "compilation 1.5 s" in out
    assert "the budget 1,000 steps, 40 s" in out and "python -m benchmarks" in out


@pytest.mark.slow
def test_a_model_is_timed_and_nothing_is_kept(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["perf", *SMALL, "--seconds", "0.3"]) == 0
    assert "steps/s" in capsys.readouterr().out
    assert not (tmp_path / "results").exists()


def test_a_model_without_steps_is_refused(capsys, tmp_path):
    assert main(["perf", "dataset=bimodal", "model=linear", f"paths.datasets={tmp_path}"]) == 2
    assert "model=linear is not trained in steps" in capsys.readouterr().err
