"""The predictive density by quadrature over w: against a fine grid, against many samples, and in a record."""

import numpy as np
import pytest
from latent_tools import grid, log_integral, marginals
from test_latent_models import fit

from dgpbench.config import compose
from dgpbench.evaluate.mixture import log_mean_exp
from dgpbench.models import latent_density


def _exact(made, x, y):
    """log of the integral of N(y; m(w), v(w) + noise) N(w; 0, 1) dw of an LV-GP, on a fine grid."""
    w, step, log_p = grid(20_001, 8.0)
    H = np.column_stack([np.tile(x, (len(w), 1)), w])
    mean, var = marginals(made.values, 1, H, float(made.values["jitter"]))
    var = var + float(made.values["likelihood/variance"])
    log_y = -0.5 * (np.log(2 * np.pi * var) + (y - mean) ** 2 / var)
    return log_integral((log_y + log_p)[None], step)[0]


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.1, 1e-4])
def test_density_of_an_lv_gp_is_the_integral(noise):
    made, X, Y, _ = fit("model=lv_gp", "inference=iwvi", f"model.likelihood_variance={noise}")
    made.load_parameters(made.values | {"likelihood/variance": np.asarray(noise)})
    Y = Y[:6] + np.array([[0.0], [0.0], [0.5], [-1.0], [2.0], [3.0]])  # some in the tails
    terms = made.log_density(X[:6], Y, 2000, 0)
    assert terms.shape == (1, 6)
    exact = np.array([_exact(made, x, y) for x, y in zip(X[:6], Y, strict=True)])
    np.testing.assert_allclose(terms[0], exact, atol=0.02)


@pytest.mark.slow
def test_density_of_a_deep_model_is_the_mean_over_its_samples():
    """Where the noise is large, thousands of prior draws are good enough to compare with."""
    made, X, Y, _ = fit("model=lv_gp_gp", "inference=iwvi", "model.inner_q_scale=0.5")
    made.load_parameters(made.values | {"likelihood/variance": np.asarray(0.3)})
    terms = np.concatenate([made.log_density(X[:5], Y[:5], 2000, s) for s in range(20)])
    ours = log_mean_exp(terms)
    error = np.exp(terms - ours).std(0) / np.sqrt(len(terms))
    mixture = made.predict(X[:5], 50_000, 1).log_density(Y[:5])
    assert np.all(np.abs(ours - mixture) < 4 * error + 0.01) and np.all(error < 0.04)


def test_padding_does_not_change_a_row():
    made, X, Y, _ = fit("model=lv_gp", "inference=vi")
    whole = made.log_density(X[:7], Y[:7], 100, 0)
    np.testing.assert_allclose(made.log_density(X[3:4], Y[3:4], 100, 0), whole[:, 3:4], atol=1e-10)


def test_without_a_better_way_the_mixture_counts():
    two, X, Y, _ = fit("model=lv_gp", "inference=vi", "model.latent_dim=2")
    assert not latent_density.possible(two.model) and two.log_density(X, Y, 100, 0) is None
    plain, X, Y, _ = fit("model=gp", "inference=vi")
    assert plain.log_density(X, Y, 100, 0) is None


@pytest.mark.slow
def test_the_record_has_the_better_density(tmp_path):
    """bimodal data and little noise: the scores of a unit are those of log_density, not of the mixture."""
    from dgpbench.data import load_split
    from dgpbench.experiment import run_unit
    from dgpbench.models.base import create
    from dgpbench.store import read
    from dgpbench.store.scan import scan

    cfg = compose(
        [
            "model=lv_gp",
            "inference=vi",
            "dataset=bimodal",
            "dataset.n=200",
            "model.num_inducing=10",
            "budget.steps=5",
            "engine.xla=false",
            f"paths.results={tmp_path}",
            f"paths.datasets={tmp_path}/d",
        ]
    )
    record = run_unit(cfg)[0].record
    (unit,) = scan(tmp_path, reference=False)
    made = create(cfg)
    made.load_parameters(read.parameters(unit))
    split = load_split(cfg, lambda text: None)
    exact = np.mean([_exact(made, x, y) for x, y in zip(split.X_test, split.Y_test, strict=True)])
    assert record["metrics"]["test_loglik_std"] == pytest.approx(exact, abs=1e-3)
    assert record["metrics"]["test_loglik_mc_se"] == 0.0
