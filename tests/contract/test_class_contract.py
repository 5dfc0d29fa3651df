"""What every model for classes must do: probabilities that sum to one, exact restoring, records, rescoring;
and what each kind of bad input is answered."""

import numpy as np
import pytest
from small_runs import SMALL, small_fields, tasks

from dgpbench.config import compose
from dgpbench.config.tree import options
from dgpbench.errors import UserError
from dgpbench.experiment import rescore, run_unit
from dgpbench.models.base import create
from dgpbench.store import read
from dgpbench.store.record import validate_record

MODELS = ["logistic", "knn", "sgp", "dgp2", "vgp"]  # of the GPs: the others differ in their layers only
ONLY_NUMBERS = [n for n in options("model") if n != "wrapped" and tasks(n) == ("regression",)]
METRICS = {"test_loglik", "test_accuracy", "test_error", "test_auc", "test_brier", "test_ece"}


def unit_config(folder, model, classes=3, *overrides):
    rng = np.random.RandomState(0)
    y = np.arange(60) % classes
    X = rng.randn(60, 2) + 1.5 * np.stack([np.cos(2 * y), np.sin(2 * y)], 1)
    file = folder / "classes.csv"
    names = np.array(["red", "green", "blue"])
    file.write_text("a,b,kind\n" + "\n".join(f"{p},{q},{names[c]}" for (p, q), c in zip(X, y, strict=True)))
    paths = [f"paths.results={folder / 'results'}", f"paths.datasets={folder / 'data'}", "paths.mirror=null"]
    task = "binary" if classes == 2 else "multiclass"
    data = ["dataset=csv", f"dataset.path={file}", "dataset.target=kind", f"dataset.task={task}"]
    return compose([f"model={model}", *SMALL, *small_fields(model), *paths, *data, *overrides])


UNITS = [(model, classes) for model in MODELS for classes in (2, 3)]
UNITS += [pytest.param(model, 2, marks=pytest.mark.slow) for model in ("ep_gpc", "gfitc", "gpmc")]


@pytest.mark.parametrize(("model", "classes"), UNITS)
def test_a_unit_of_classes(model, classes, tmp_path):
    cfg = unit_config(tmp_path, model, classes)
    unit, was_done = run_unit(cfg)
    record = unit.record
    assert record["status"] == "done" and not was_done
    validate_record(record)
    assert set(record["metrics"]) == METRICS and all(np.isfinite(v) for v in record["metrics"].values())
    assert record["sizes"] == {"n_train": 54, "n_test": 6, "inputs": 2, "outputs": 1, "classes": classes}
    assert record["details"]["classes"] == ["blue", "green", "red"][3 - classes :]
    assert set(record["files"]) == {"predictions.parquet", "params.npz"}

    kept = read.predictions(unit)
    probs = np.column_stack([kept[f"p_{c}"] for c in range(classes)])
    assert np.allclose(probs.sum(1), 1) and probs.min() >= 0
    truth = probs[np.arange(6), kept["y"]]
    assert record["metrics"]["test_loglik"] == pytest.approx(np.log(truth).mean(), rel=1e-9)
    assert record["metrics"]["test_accuracy"] == pytest.approx(np.mean(kept["predicted"] == kept["y"]))

    assert run_unit(cfg)[1]
    again = rescore(unit)
    assert again.record["metrics"] == record["metrics"] and again.record["key"] == record["key"]
    assert np.array_equal(read.predictions(again)["p_0"], kept["p_0"])


@pytest.mark.parametrize("model", ["logistic", "knn"])
def test_restored_models_predict_the_same_and_rows_do_not_meet(model, tmp_path):
    unit, _ = run_unit(unit_config(tmp_path, model))
    made = create(unit.record["config"])
    made.load_parameters(read.parameters(unit))
    new = np.random.RandomState(2).randn(11, 2)
    whole, part = made.predict(new, 1, 0).probs, made.predict(new[6:], 1, 9).probs
    assert np.allclose(whole[6:], part, atol=1e-12)


@pytest.mark.parametrize("model", ONLY_NUMBERS)
def test_regression_models_refuse_classes(model, tmp_path):
    with pytest.raises(UserError, match=f"model {model} is for regression; dataset csv is multiclass: use"):
        run_unit(unit_config(tmp_path, model))


def test_models_for_classes_refuse_numbers(tmp_path):
    cfg = unit_config(tmp_path, "logistic", 2)
    cfg["dataset"] |= {"target": "a", "drop": ["kind"], "task": "regression"}
    with pytest.raises(UserError, match="model logistic is for binary and multiclass; dataset csv is regres"):
        run_unit(cfg)


def test_a_class_unseen_in_training_is_noted_in_the_record(tmp_path):
    cfg = unit_config(tmp_path, "logistic")
    file = tmp_path / "classes.csv"
    lines = file.read_text().splitlines()
    test = np.arange(60)
    np.random.RandomState(0).shuffle(test)
    lines[1 + test[-1]] = lines[1 + test[-1]].rpartition(",")[0] + ",violet"
    file.write_text("\n".join(lines))
    unit, _ = run_unit(cfg)
    assert unit.record["status"] == "done" and unit.record["sizes"]["classes"] == 4
    assert "no training row has class violet; it keeps its column" in " ".join(unit.record["notes"])
    assert np.allclose(read.predictions(unit)["p_3"], 1 / (54 + 4))


def test_a_model_that_predicts_numbers_for_classes_is_recorded_as_failed(tmp_path):
    cfg = unit_config(tmp_path, "linear")
    cfg["model"]["_target_"] = "stub_models.Good"
    unit, _ = run_unit(cfg)
    assert unit.record["status"] == "failed"
    assert "predict returned numbers (mixture), expected Predictive(probs=)" in unit.record["reason"]
