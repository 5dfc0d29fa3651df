"""The race with the peers: whose time counts, what the tables say, and that it goes on where it ended."""

import json
import sys

import numpy as np
import pytest

from benchmarks import race, race_tables, stopwatch
from benchmarks.kept import Kept
from benchmarks.race_tables import scores, verdicts
from benchmarks.stopwatch import Stopwatch
from dgpbench.errors import UserError


class Clock:
    """Processor and wall time that pass as told."""

    def __init__(self, monkeypatch):
        self.cpu = self.wall = 0.0
        monkeypatch.setattr(stopwatch.time, "process_time", lambda: self.cpu)
        monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: self.wall)

    def spend(self, cpu, wall):
        self.cpu, self.wall = self.cpu + cpu, self.wall + wall


def test_scores_and_start_up_are_no_training_time(monkeypatch):
    clock = Clock(monkeypatch)
    clock.spend(3.0, 4.0)  # imports

    def score():
        clock.spend(50.0, 60.0)
        return -1.0

    def advance(steps):
        clock.spend(0.1 * steps, 0.2 * steps)

    watch = Stopwatch(score, 2.0)
    assert watch.run(advance) is None
    assert watch.startup == pytest.approx([3.1, 0.2])  # processor time from the process's start on
    steps, cpu, wall, value = watch.points[-1]
    assert cpu == pytest.approx(0.1 * (steps - 1)) and wall == pytest.approx(2 * cpu) and value == -1.0
    assert 2.0 <= cpu < 2.0 + 2 * stopwatch.BLOCK
    times = [point[1] for point in watch.points]
    assert times[0] >= stopwatch.FIRST
    assert all(b >= a * stopwatch.GROWTH for a, b in zip(times[:-2], times[1:-1], strict=True))


def test_a_score_that_is_no_number_ends_a_run(monkeypatch):
    clock = Clock(monkeypatch)
    watch = Stopwatch(lambda: float("nan"), 2.0)
    assert "log-likelihood is nan" in watch.run(lambda steps: clock.spend(0.3 * steps, 0.0))
    assert watch.points == []


def _run(system, values, split=0, dataset="d"):
    points = [[10 * i, t, 2 * t, v] for i, (t, v) in enumerate(values)]
    return {"dataset": dataset, "split": split, "seed": 0, "system": system, "startup": [1.0, 2.0],
            "points": points, "reason": None}  # fmt: skip


def test_the_deficit_is_the_worst_beyond_what_is_allowed():
    ours = [_run("dgpbench", [(5, 0.0), (10, 0.5), (20, 0.5)], s) for s in (0, 1)]
    theirs = [_run("gpytorch", [(5, 0.1), (10, 0.2), (20, 0.56 + 0.1 * s)], s) for s in (0, 1)]
    assert race.behind(ours, theirs, (5.0, 10.0)) == (5.0, pytest.approx(-0.1), -0.03)
    when, gap, allowed = race.behind(ours, theirs, (20.0,))
    assert (when, gap) == (20.0, pytest.approx(-0.11))
    assert allowed == pytest.approx(-2 * np.std([-0.06, -0.16], ddof=1) / np.sqrt(2))


def test_a_value_is_reached_when_the_next_score_confirms_it():
    run = _run("dgpbench", [(5, 0.6), (10, 0.4), (20, 0.5), (30, 0.7)])
    assert race.reached(run, 0.5) == 20 and race.reached(run, 0.7) == 30 and race.reached(run, 0.8) is None
    assert race.at(run, 19.0) == 0.4 and race.at(run, 1.0) is None


def test_tables_and_figure(tmp_path):
    runs = [_run("dgpbench", [(5, 0.0), (10, 0.6), (20, 0.8)]), _run("gpytorch", [(5, 0.1), (20, 0.5)])]
    table = scores(runs)
    assert table.header[2:5] == ["5 s", "10 s", "20 s"]
    assert table.rows[1][:5] == ["d", "gpytorch", "0.100", "0.100", "0.500"]
    line, total = verdicts(runs).rows
    assert line == ["gpytorch", "d", "-0.100 at 5 s", "-0.030", "no", "0.50", ""]
    assert total[-2:] == ["0.50, 0.50", "no"]
    assert len(race_tables.rows(runs)) == 5
    race_tables.draw(runs, tmp_path / "race.png")
    assert (tmp_path / "race.png").read_bytes()[:4] == b"\x89PNG"


def test_a_study_goes_on_where_it_was_broken_off(tmp_path):
    path = tmp_path / "runs.jsonl"
    assert Kept(path).measured({"a": 1}, lambda: {"x": 1}) == ({"x": 1}, False)
    with path.open("a") as file:
        file.write('{"what": {"a": 2}, "found": {"x"')  # killed while it wrote
    again = Kept(path)
    assert again.measured({"a": 1}, lambda: {"x": 9}) == ({"x": 1}, True)
    assert again.measured({"a": 2}, lambda: {"x": 2}) == ({"x": 2}, False)
    assert Kept(path).measured({"a": 2}, lambda: {"x": 9}) == ({"x": 2}, True)


def test_a_racer_that_is_not_installed_is_refused(tmp_path):
    with pytest.raises(UserError, match="no environment has gpytorch"):
        race.measure(["energy"], ["gpytorch"], 1, 1.0, {}, Kept(tmp_path / "k"), print)


@pytest.mark.slow
def test_ours_races_in_a_process_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("DGPBENCH_DATASETS", str(tmp_path))
    words = ["model=sgp", "model.num_inducing=5", "engine.xla=false"]
    task = {"library": "dgpbench", "settings": {"words": words, "test_samples": 3}, "seed": 0, "threads": 1}
    found = race._run(sys.executable, "bimodal", 0, task | {"seconds": 0.6})
    assert found["reason"] is None and found["points"][-1][1] >= 0.6
    assert json.dumps(found) and found["versions"]["tensorflow"]
