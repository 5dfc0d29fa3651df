"""The numbers behind the figures of power EP, of layers turned off and of fidelities."""

import numpy as np
import pytest
from report_units import record, unit

from dgpbench.data.synthetic import SETS
from dgpbench.papers import figures
from dgpbench.papers.figures import record_figures
from dgpbench.report.charts import Nothing
from dgpbench.store.scan import scan
from dgpbench.store.write import write_unit


def _alpha(dataset, value, split, loglik, rmse):
    metrics = {"test_loglik": loglik, "test_rmse": rmse}
    return unit(f"alpha_toy_{value}", dataset, split, metrics)


def test_ranks_are_of_means_over_common_splits():
    units = [_alpha("step", "small", s, 1.0 + s, 3.0) for s in (0, 1)]
    units += [_alpha("step", "half", s, 2.0, 1.0) for s in (0, 1, 2)]
    units += [_alpha("step", "one", s, 3.0, 2.0) for s in (0, 1)]
    units += [_alpha("bimodal", "one", 0, 1.0, 1.0)]  # one alpha alone has no rank
    data = record_figures.rank_frame(units)
    assert set(data.dataset) == {"step"} and set(data.splits) == {2}
    found = data.set_index(["metric", "alpha"])
    assert found["rank"].to_dict() == {
        ("test_loglik", 0.001): 3.0,
        ("test_loglik", 0.5): 2.0,
        ("test_loglik", 1.0): 1.0,
        ("test_rmse", 0.001): 3.0,
        ("test_rmse", 0.5): 1.0,
        ("test_rmse", 1.0): 2.0,
    }
    assert found["mean"]["test_loglik", 0.001] == 1.5
    picture = figures.make(figures.find("alpha"), units)
    assert "mean rank of RMSE: 3.00 at 0.001, 1.00 at 0.5, 2.00 at 1" in picture.notes
    assert picture.image()[:4] == b"\x89PNG"
    with pytest.raises(Nothing, match="no dataset"):
        figures.make(figures.find("alpha"), units[-1:])


def test_shares_of_layers_come_from_the_checks_of_a_run():
    checks = {"layer0": {"signal": 0.0, "variance": 0.5}, "layer1": {"signal": 3.0, "variance": 1.0}}
    made = unit("analytic_dgp2", "step", 0, {"test_loglik": 0.0}, training={"checks": checks})
    data = record_figures.share_frame([made])
    assert data.share.tolist() == [0.0, 0.75] and data.layer.tolist() == [1, 2]
    picture = figures.make(figures.find("analytic"), [made])
    assert picture.notes == ("1 of 2 layers are turned off (share below 0.01)",)
    assert picture.image()[:4] == b"\x89PNG"


def test_fidelities_are_drawn_from_the_draws_of_a_run(tmp_path):
    rng, x = np.random.default_rng(0), np.linspace(0, 1, 9)
    X = np.column_stack([x, np.ones(9)])
    truth = SETS["mf_sine"].value(X)
    table = {
        "row": np.arange(9),
        "output": np.zeros(9, np.int16),
        "y": truth,
        "x": X,
        "draws": (truth[:, None] + 0.1 * rng.standard_normal((9, 2000))).astype(np.float32),
    }
    made = record("mf_sine_mfdgp", "mf_sine", 0, {"test_loglik": 0.0})
    write_unit(tmp_path, made, draws=table)
    picture = figures.make(figures.find("fidelities"), scan(tmp_path))
    np.testing.assert_allclose(picture.data["mean"], truth, atol=0.01)
    np.testing.assert_allclose(picture.data.high - picture.data.low, 2 * 1.96 * 0.1, rtol=0.1)
    assert picture.image()[:4] == b"\x89PNG"
