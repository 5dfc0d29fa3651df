"""Figures of intensities: the rates of the predictions, in order, and what is left out."""

import numpy as np
import pytest
from report_units import record

from dgpbench.papers import figures
from dgpbench.report.charts import Nothing
from dgpbench.store.scan import scan
from dgpbench.store.write import write_unit


def _run(results, dataset, experiment, D, k, draws=True):
    rng = np.random.default_rng(0)
    axis = np.arange(k) + 0.5
    x = np.stack(np.meshgrid(*[axis] * D, indexing="ij"), -1).reshape(-1, D)
    order = rng.permutation(len(x))
    rate = x.sum(1)
    table = {"row": order, "output": np.zeros(len(x), np.int16), "y": (rate[order] > 2).astype(float)}
    table |= {f"x_{i}": x[order, i] for i in range(D)}
    table |= {"rate_mean": rate[order], "rate_q05": 0.5 * rate[order], "rate_q95": 2 * rate[order]}
    kernel = "draws/layer0/kernel/rbf/"
    params = (
        {kernel + "lengthscales": np.ones((9, 1)), kernel + "variance": np.ones(9)} if draws else {"v": x}
    )
    write_unit(
        results, record(experiment, dataset, 0, {"test_loglik": 0.0}), predictions=table, params=params
    )
    return x, rate


def test_a_curve_and_a_map_have_the_rates_in_order(tmp_path):
    for name, dataset, experiment, D, k in (
        ("matthews5.3", "coal", "matthews2016_coal_mcmc", 1, 8),
        ("matthews5.4", "pines", "matthews2016_pines", 2, 5),
    ):
        x, rate = _run(tmp_path, dataset, experiment, D, k)
        picture = figures.make(figures.find(name), scan(tmp_path, reference=False))
        np.testing.assert_array_equal(picture.data.rate, rate)
        np.testing.assert_array_equal(picture.data[[f"x_{i}" for i in range(D)]], x)
        np.testing.assert_array_equal(picture.data.high, 2 * rate)
        assert picture.image()[:4] == b"\x89PNG"


def test_runs_without_rates_are_told(tmp_path):
    made = record("matthews2016_coal_mcmc", "coal", 0, {"test_loglik": 0.0})
    write_unit(tmp_path, made, predictions={"row": np.arange(3), "y": np.ones(3)}, params={"v": np.ones(2)})
    with pytest.raises(Nothing, match="none of these runs has the rates"):
        figures.make(figures.find("matthews5.3"), scan(tmp_path, reference=False))
