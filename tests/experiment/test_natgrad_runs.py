"""Runs of chapter 3: what is fixed stays fixed, and the trace has what its figures read."""

import numpy as np
import pytest
from csv_units import TINY
from csv_units import config as csv_config

from dgpbench.config import compose
from dgpbench.config.tree import options
from dgpbench.errors import UserError
from dgpbench.experiment import run_unit
from dgpbench.report.charts import training_curves as traces
from dgpbench.store import read

SEARCH = ("inference=ngd_adam", "inference.hyperparameters=fixed", "inference.natgrad.step=linesearch")
EXACT, EACH = "precision=float64", "engine.block_seconds=1e-6"


def config(folder, *words):
    folder.mkdir(exist_ok=True)
    return csv_config(folder, *words)


def test_line_search_in_a_record(tmp_path):
    """One entry per step, uphill, with the step's size; natural parameters and a Gaussian need one step."""
    unit, _ = run_unit(config(tmp_path, "model=sgp", *TINY, *SEARCH, EXACT, "budget.steps=4", EACH))
    trace = unit.record["training"]["trace"]
    assert [line[0] for line in trace] == [1, 2, 3, 4] and all(len(line) == 4 for line in trace)
    assert trace[0][3] == pytest.approx(1.0, abs=5e-3)
    bounds = [line[2] for line in trace]
    assert bounds == sorted(bounds) and bounds[-1] - bounds[0] < 0.1
    frame = traces.trace_frame([unit])
    assert frame.step_size.tolist() == [line[3] for line in trace] and frame.test_loglik.isna().all()
    assert unit.record["training"]["cpu_seconds"] > 0


@pytest.mark.slow
def test_fixed_hyperparameters_stay_as_they_start(tmp_path):
    start, _ = run_unit(config(tmp_path / "a", "model=sgp", *TINY, "budget.steps=3"))
    for name, words in {
        "search": SEARCH,
        "adam": ("inference=fast", "inference.hyperparameters=fixed"),
    }.items():
        unit, _ = run_unit(config(tmp_path / name, "model=sgp", *TINY, *words, "budget.steps=5"))
        values = read.parameters(unit)
        assert values["likelihood/variance"] == pytest.approx(0.01, rel=1e-12)
        np.testing.assert_allclose(values["layer0/kernel/rbf/lengthscales"], 2.0, rtol=1e-12)
        assert np.abs(values["layer0/q_mu"]).max() > 0
        assert not np.array_equal(values["layer0/Z"], read.parameters(start)["layer0/Z"])  # Adam moves it


def test_the_last_test_loglik_of_a_trace_is_the_metric(tmp_path):
    words = ("model=sgp", *TINY, "inference=ngd_adam", "budget.steps=6", EACH)
    unit, _ = run_unit(config(tmp_path / "a", *words, "engine.trace_test=true"))
    trace, metric = unit.record["training"]["trace"], unit.record["metrics"]["test_loglik"]
    assert [line[0] for line in trace if len(line) == 5] == [1, 2, 3, 4, 5, 6]
    assert [line[3] for line in trace] == [None] * len(trace)
    assert trace[-1][4] == pytest.approx(metric, rel=1e-9)
    assert trace[0][4] != pytest.approx(metric, rel=1e-6)
    plain, _ = run_unit(config(tmp_path / "b", *words))
    assert plain.record["key"] == unit.record["key"]  # looking changes nothing
    assert plain.record["metrics"]["test_loglik"] == metric


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["inference.natgrad.direction=adam"], "add inference.natgrad.step=linesearch"),
        (["inference=dsvi", "inference.natgrad.step=linesearch"], "needs inference.optimiser=ngd_adam"),
        (["inference=ngd_adam", "inference.natgrad.step=linesearch"], "inference.hyperparameters=fixed"),
        ([*SEARCH, "model=dgp2"], "needs one GP layer"),
        (["model=mdn", "inference.hyperparameters=fixed"], "is for GP models; model=mdn is none"),
        (["model=linear", "engine.trace_test=true"], "is for GP models; model=linear is none"),
    ],
)
def test_what_does_not_fit_is_refused(words, message):
    with pytest.raises(UserError, match=message):
        compose(words)


def test_line_search_on_minibatches_is_refused(tmp_path):
    with pytest.raises(UserError, match="set inference.batch="):
        run_unit(config(tmp_path, "model=sgp", *TINY, *SEARCH, "budget.steps=2", "inference.batch=10"))


NAMES = [name for name in options("experiment") if name.startswith("natgrad_")]


@pytest.mark.parametrize("name", [n for n in NAMES if n.endswith("ngd_adam")])
def test_pairs_share_all_but_the_optimiser(name):
    """NGD+Adam and Adam alone have the same data, start, minibatches and rate of Adam."""
    ours = compose([f"experiment={name}"])
    other = compose([f"experiment={name.removesuffix('ngd_adam')}adam"])
    for section in ("dataset", "protocol", "model", "likelihood"):
        assert ours[section] == other[section], section
    assert other["budget"]["steps"] == ours["budget"]["steps"] * (3 if "naval" in name else 1)
    assert (ours["seed"], ours["precision"]) == (other["seed"], other["precision"])
    for field in ("batch", "samples", "adam", "hyperparameters"):
        assert ours["inference"][field] == other["inference"][field], field
    assert (ours["inference"]["optimiser"], other["inference"]["optimiser"]) == ("ngd_adam", "adam")


def test_schedules_are_those_of_the_thesis():
    ramps = {name: compose([f"experiment={name}"])["inference"]["natgrad"] for name in NAMES if "ngd" in name}
    for name, ngd in ramps.items():
        if "linesearch" in name:
            continue
        small = "fixed" in name or "joint" in name
        expected = (1e-4, 0.01 if "dgp2" in name else 0.1, 5 if small else 40)
        expected = (1e-6, 0.02, 2000) if "mnist" in name else expected
        assert (ngd["gamma_initial"], ngd["gamma"], ngd["ramp_steps"]) == expected, name
