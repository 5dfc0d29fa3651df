"""Time to accuracy: what counts as training time, as reached, and as the score."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import accuracy
from benchmarks.curves import Curve, Enough, Race, StageOver, Variation, Watch, curve_of

TINY = ["dataset=arm8", "dataset.n=300", "model=dgp2", "model.num_inducing=5", "inference.batch=50",
        "engine.xla=false", "protocol.test_samples=3", "protocol.draws=5", "threads=1"]  # fmt: skip


def test_a_value_counts_once_it_stays_for_two_scores():
    values = (-3.0, -1.0, -2.0, -1.5, -1.6)
    curve = Curve(points=[[10 * i, float(i), value] for i, value in enumerate(values, 1)])
    assert curve.reached(-1.6) == (40, 4.0)
    assert curve.reached(-2.0) == (20, 2.0)
    assert curve.reached(-1.0) is None
    assert (curve.at(3.5), curve.at(0.5)) == (-2.0, None)


def test_scoring_and_compiling_are_not_training_time():
    now = [0.0]

    def score():
        now[0] += 100.0
        return 1.0

    watch = Watch(score, Race(3.0, clock=lambda: now[0], growth=2.0))
    watch.start(None, None)
    now[0] += 7.0
    watch.update(1, 0.0, 0.0, None)  # no rate yet: the first block
    for step in (11, 21):
        now[0] += 1.0
        watch.update(step, 0.0, 10.0, None)
    assert watch.curve.compile_seconds == 7.0
    assert watch.curve.points == [[11, 1.0, 1.0], [21, 2.0, 1.0]]
    now[0] += 1.0
    with pytest.raises(Enough):  # the time is over; its end is scored though no score is due
        watch.update(31, 0.0, 10.0, None)
    assert watch.curve.points[-1] == [31, 3.0, 1.0]


@pytest.mark.slow
def test_the_score_is_the_metric_of_a_run(tmp_path, monkeypatch):
    """A run of as many steps as the last score has the same test log-likelihood in its record."""
    from dgpbench.config import compose
    from dgpbench.experiment import run_unit

    monkeypatch.setenv("DGPBENCH_DATASETS", str(tmp_path))
    monkeypatch.setenv("DGPBENCH_RESULTS", str(tmp_path / "results"))
    curve = curve_of(TINY, Race(0.6))
    steps, seconds, value = curve.last
    assert seconds >= 0.6 and steps > 10
    unit, _ = run_unit(compose([*TINY, f"budget.steps={steps}"]))
    assert unit.record["metrics"]["test_loglik"] == pytest.approx(value, abs=1e-9)

    reached = curve_of(TINY, Race(30.0, target=value - 1000))  # ends at the second score
    assert len(reached.points) == 2 and reached.last[1] < 10


def test_validation_rows_are_training_rows(tmp_path, monkeypatch):
    from benchmarks import curves

    monkeypatch.setenv("DGPBENCH_DATASETS", str(tmp_path))
    seen = []
    monkeypatch.setattr(curves, "log_likelihood", lambda predict, split, *rest: seen.append(split) or 0.0)
    curve_of(TINY, Race(0.5, part="valid"))
    split = seen[0]
    assert (split.n_train, split.n_test) == (243, 27)  # of 270 training rows; the 30 test rows are not there
    from dgpbench.data.split import shuffle_rows

    train, test = shuffle_rows(300, 0)
    assert set(split.rows_test) < set(train) and not set(split.rows_test) & set(test)


class FakeTrainer:
    """A trainer with one parameter, which is positive."""

    class spec:
        class bound:
            @staticmethod
            def constraints():
                from dgpbench.gp.parameters import POSITIVE

                return {"a": POSITIVE}

    def __init__(self, value):
        import tensorflow as tf

        self.oracle = type("Oracle", (), {"raw": {"a": tf.Variable(value, dtype=tf.float64)}})

    def values(self):
        return {"a": np.nan, "jitter": 1e-6}


def test_an_average_is_of_unconstrained_parameters_with_weights_that_fall_with_their_age():
    watch = Watch(lambda: 0.0, Race(100.0, clock=lambda: 0.0), Variation(average=10.0))
    trainer = FakeTrainer(1.0)
    watch.training(trainer)
    watch.start(None, None)
    for step, value in ((5, 1.0), (10, 3.0), (30, -2.0)):
        trainer.oracle.raw["a"].assign(value)
        watch.update(step, 0.0, 10.0, None)
    old = np.exp(-20 / 10)  # the share of what there was before the last one
    raw = old * (np.exp(-5 / 10) * 1.0 + (1 - np.exp(-5 / 10)) * 3.0) + (1 - old) * -2.0
    assert watch.values()["a"] == pytest.approx(np.log1p(np.exp(raw)), rel=1e-5)
    assert watch.values()["jitter"] == 1e-6


def test_a_first_stage_ends_after_its_share_and_hands_on_what_it_found():
    now = [0.0]
    watch = Watch(lambda: 0.0, Race(10.0, clock=lambda: now[0]), Variation(first=("seed=1",), share=0.2))
    watch.training(FakeTrainer(4.0))
    watch.start(None, None)
    now[0] += 1.0
    watch.update(7, 0.0, 10.0, None)
    now[0] += 1.0
    with pytest.raises(StageOver):
        watch.update(14, 0.0, 10.0, None)
    second = FakeTrainer(0.0)
    watch.training(second)
    assert float(second.oracle.raw["a"].numpy()) == 4.0
    watch.start(None, None)
    now[0] += 1.0
    watch.update(6, 0.0, 10.0, None)  # no second end, and steps go on where they were
    assert watch.curve.points[-1][:2] == [20, 3.0]


def test_a_growing_batch_and_an_average_train(tmp_path, monkeypatch):
    monkeypatch.setenv("DGPBENCH_DATASETS", str(tmp_path))
    for variation in (Variation(first=("inference.batch=20",), share=0.3), Variation(average=20.0)):
        curve = curve_of(TINY, Race(0.8, part="valid"), variation)
        steps = [step for step, _, _ in curve.points]
        assert curve.reason is None and steps == sorted(steps) and np.isfinite(curve.last).all()


def run(dataset, system, points, target=-1.0, split=0):
    return {"dataset": dataset, "system": system, "split": split, "target": target, "compile_seconds": 2.0,
            "points": points, "reason": None}  # fmt: skip


def test_tables():
    runs = [run("d", "paper", [[10, 8.0, -1.0], [20, 9.0, -0.5]]),
            run("d", "paper", [[10, 4.0, -1.0], [20, 5.0, -0.5]], split=1),
            run("d", "ngd", [[10, 1.0, -2.0], [20, 2.0, -0.5], [30, 3.0, -0.5]])]  # fmt: skip
    paper, ours = accuracy.race_table(runs).rows
    assert paper == ["d", "paper", "-1.00", "2/2", "6.0", "10", "–", "2.0", "-0.500"]
    assert ours == ["d", "ngd", "-1.00", "1/1", "2.0", "20", "3.0x", "2.0", "-0.500"]
    missed = accuracy.race_table([run("d", "paper", [[10, 8.0, -1.0], [20, 9.0, -1.5]])]).rows[0]
    assert missed[3:6] == ["0/1", "> 9", "–"]
    table = accuracy.choice_table(runs)
    assert table.header == ["dataset", "system", "2 s", "5 s", "steps"]
    assert table.rows == [["d", "paper", "–", "–", "20"], ["d", "ngd", "-0.500", "-0.500", "30"]]
    assert len(accuracy.rows(runs)) == 7


def test_targets_are_those_of_table_s7():
    assert accuracy.published("concrete") == -3.12
    assert np.isfinite([accuracy.published(name) for name in accuracy.RACE["datasets"]]).all()


@pytest.mark.parametrize("dataset", accuracy.TYPICAL)
def test_typical_splits_are_those_where_the_linear_model_is_nearest_to_its_mean(dataset):
    from dgpbench.store.reference import load

    reference = Path(__file__).parents[2] / "results" / "reference" / "dsvi2017.jsonl.gz"
    records = [u.record for u in load(reference) if u.record["experiment"] == "dsvi2017_linear"]
    value = {r["split"]: r["metrics"]["test_loglik"] for r in records if r["dataset"] == dataset}
    mean = np.mean(list(value.values()))
    order = sorted(value, key=lambda split: abs(value[split] - mean))
    assert len(value) == 20 and accuracy.typical_splits(dataset, 3) == order[:3]
    assert sorted(accuracy.typical_splits(dataset, 20)) == list(range(20))
