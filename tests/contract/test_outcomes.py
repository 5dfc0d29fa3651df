"""Whatever a model does wrong is in its record, with the reason; what the user can mend is one clear line."""

import pytest
from small_runs import unit_config

from dgpbench.config.keys import complete
from dgpbench.errors import Interrupted, UserError
from dgpbench.experiment import run_unit
from dgpbench.store.record import validate_record
from dgpbench.store.scan import scan


def stub(folder, name):
    cfg = unit_config(folder, "linear")
    return cfg | {"model": {"_target_": f"stub_models.{name}", "name": name.lower()}}


OUTCOMES = {
    "Failing": ("failed", "RuntimeError: no luck today (stub_models.py, line 30, in fit)"),
    "OutOfMemory": ("oom", "MemoryError: too large (stub_models.py, line 35, in fit)"),
    "Diverging": ("diverged", "the bound is not finite"),
    "NotANumber": ("diverged", "predictive mean is not finite in 8 of 8 entries (test rows 0 to 3)"),
    "NegativeVariance": (
        "diverged",
        "predictive variance is not positive in 8 of 8 entries (test rows 0 to 3)",
    ),
    "WrongShape": ("failed", "stub_models.py:64: predict returned shape (1, 4, 1), expected (S, 4, 2)"),
    "NotPlain": ("failed", "ValueError: parameters must be plain arrays; tree would need pickle"),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_status_and_reason(name, tmp_path):
    cfg = stub(tmp_path, name)
    unit, was_done = run_unit(cfg)
    validate_record(unit.record)
    assert (unit.record["status"], unit.record["reason"]) == OUTCOMES[name]
    assert not was_done and unit.record["metrics"] == {} and unit.record["files"] == {}
    assert unit.record["sizes"]["n_train"] == 30 and unit.record["data_hash"]
    if unit.record["status"] == "failed":
        assert "Traceback" in unit.record["details"]["traceback"]
    again, was_done = run_unit(cfg)  # what is not done is tried again
    assert not was_done and again.path == unit.path


def test_a_failure_gives_way_to_success_and_not_the_reverse(tmp_path, monkeypatch):
    import stub_models

    failed, _ = run_unit(stub(tmp_path, "Failing"))
    monkeypatch.setattr(stub_models.Failing, "fit", stub_models.Good.fit)
    done, _ = run_unit(stub(tmp_path, "Failing"))
    assert done.path == failed.path and done.record["status"] == "done" and done.record["reason"] is None
    monkeypatch.undo()
    kept, was_done = run_unit(stub(tmp_path, "Failing"))
    assert was_done and kept.record == done.record | {"config": complete(done.record["config"])}


def test_good_stub_is_scored(tmp_path):
    unit, _ = run_unit(stub(tmp_path, "Good"))
    assert unit.record["status"] == "done" and unit.record["training"] == {}
    assert unit.record["metrics"]["test_loglik_mc_se"] == 0.0


def test_draws_only_has_no_exact_density(tmp_path):
    metrics = run_unit(stub(tmp_path, "DrawsOnly"))[0].record["metrics"]
    assert metrics["test_loglik"] is None and metrics["test_loglik_mc_se"] is None
    assert metrics["test_rmse"] > 0 and 0.0 <= metrics["test_coverage95"] <= 1.0


def test_interruption_is_recorded_and_raised(tmp_path):
    with pytest.raises(Interrupted, match="signal 15 at step 7"):
        run_unit(stub(tmp_path, "Stopped"))
    (unit,) = scan(tmp_path / "results")
    assert unit.record["status"] == "interrupted" and "step 7" in unit.record["reason"]


REFUSED = {
    "Refusing": "this model takes one input only",
    "Incomplete": "lacks predict, parameters, load_parameters; see docs/first-model.md",
    "Missing": "cannot be imported .*no attribute 'Missing'.*give module.Class",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_user_can_mend_is_raised(name, tmp_path):
    with pytest.raises(UserError, match=REFUSED[name]):
        run_unit(stub(tmp_path, name))
    assert scan(tmp_path / "results") == []


def test_an_error_in_a_constructor_is_not_called_an_import_error(tmp_path):
    words = r"cannot be built: AttributeError: .*no_such_method. \(stub_models.py, line 88, in __init__\)"
    with pytest.raises(UserError, match=words):
        run_unit(stub(tmp_path, "Broken"))


@pytest.mark.parametrize("target", ["no_such_module.Mine", "Mine"])
def test_targets_that_cannot_be_imported(target, tmp_path):
    cfg = unit_config(tmp_path, "linear")
    with pytest.raises(UserError, match=f"model._target_={target} cannot be imported"):
        run_unit(cfg | {"model": {"_target_": target, "name": "x"}})
