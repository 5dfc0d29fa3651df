"""Which runs are the same run: keys, seeds, deviations, budgets."""

import numpy as np
import pytest
from csv_units import TINY, config

from dgpbench.config.keys import complete
from dgpbench.experiment import run_seed, run_unit
from dgpbench.store import read


def test_key_and_numbers_do_not_depend_on_where_things_lie(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    a, _ = run_unit(config(tmp_path / "a", "model=sgp", *TINY))
    b, was_done = run_unit(config(tmp_path / "b", "model=sgp", *TINY))
    assert not was_done and a.path != b.path
    assert a.path.relative_to(tmp_path / "a") == b.path.relative_to(tmp_path / "b")
    for name in ("key", "config_key", "data_hash", "metrics"):
        assert a.record[name] == b.record[name]


def test_key_changes_with_what_matters(tmp_path):
    first, _ = run_unit(config(tmp_path, "model=linear"))
    seen = {first.record["key"]}
    for change in ("split=1", "seed=1"):
        unit, _ = run_unit(config(tmp_path, "model=linear", change))
        assert unit.record["config_key"] == first.record["config_key"]
        seen.add(unit.record["key"])
    unit, _ = run_unit(config(tmp_path, "model=linear", "protocol.train_fraction=0.8"))
    assert unit.record["config_key"] != first.record["config_key"]
    assert len(seen | {unit.record["key"]}) == 4
    labelled, was_done = run_unit(config(tmp_path, "model=linear", "threads=1", "device=cpu"))
    assert was_done and labelled.record == first.record | {"config": complete(first.record["config"])}


def test_deviations_from_an_experiment_are_recorded(tmp_path):
    unit, _ = run_unit(config(tmp_path, "experiment=dsvi2017_linear", "protocol.test_samples=50"))
    assert unit.record["experiment"] == "dsvi2017_linear"
    assert unit.record["deviations"] == [
        "protocol.draws=100 (experiment: 2000)",
        "protocol.test_samples=50 (experiment: 100)",
    ]
    plain, _ = run_unit(config(tmp_path, "experiment=dsvi2017_linear", "protocol.draws=2000", "split=1"))
    assert plain.record["deviations"] == []


def test_released_protocol_repeats_split_zero_with_other_seeds(tmp_path):
    """Split k with seed s is split 0 with seed s + k."""
    base = ["model=sgp", "protocol=iwvi2019_released", "inference.batch=10", *TINY]
    zero, _ = run_unit(config(tmp_path, *base))
    two, _ = run_unit(config(tmp_path, *base, "split=2"))
    shifted, _ = run_unit(config(tmp_path, *base, "seed=2"))
    assert [run_seed(unit.record["config"]) for unit in (zero, two, shifted)] == [0, 2, 2]
    assert (two.record["split"], two.record["seed"]) == (2, 0)
    rows = [read.predictions(unit)["row"] for unit in (zero, two)]
    assert np.array_equal(*rows)
    assert two.record["metrics"] == shifted.record["metrics"]
    assert two.record["metrics"]["test_loglik"] != zero.record["metrics"]["test_loglik"]
    assert len({unit.record["key"] for unit in (zero, two, shifted)}) == 3


def test_scaling_by_all_rows_is_that_of_the_published_code(tmp_path):
    unit, _ = run_unit(config(tmp_path, "model=linear", "protocol=iwvi2019", "protocol.max_test=3"))
    assert unit.record["sizes"]["n_test"] == 3
    y = np.loadtxt(tmp_path / "data.csv", delimiter=",")[:, 3]
    metrics = unit.record["metrics"]
    assert metrics["test_rmse"] / metrics["test_rmse_std"] == pytest.approx(y.std() + 1e-6, rel=1e-12)


def test_budget_in_seconds(tmp_path):
    cfg = config(
        tmp_path, "model=sgp", *TINY, "budget.steps=null", "budget.seconds=0.4", "engine.block_seconds=0.05"
    )
    unit, _ = run_unit(cfg)
    training = unit.record["training"]
    assert 0.4 <= training["seconds"] < 3.0
    assert training["steps"] > 5 and unit.record["steps_per_second"] > 1.0
    assert unit.record["config"]["device"].startswith(("cpu ", "gpu "))
    assert unit.record["config"]["threads"] == unit.record["threads"] >= 1
    again, was_done = run_unit(cfg)
    assert was_done and again.record["key"] == unit.record["key"]


def test_more_inducing_points_than_rows_is_said(tmp_path):
    unit, _ = run_unit(config(tmp_path, "model=sgp", *TINY, "model.num_inducing=50"))
    assert unit.record["status"] == "done"
    assert any("50 inducing points" in note and "36" in note for note in unit.record["notes"])
    assert read.parameters(unit)["layer0/Z"].shape == (36, 3)
