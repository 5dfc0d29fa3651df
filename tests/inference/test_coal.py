"""Chains of the hyperparameters on the coal-mining disasters against a grid of prior times evidence."""

import numpy as np
import pytest
from coal_marginal import grid_moments

from dgpbench.config import compose
from dgpbench.config.classes import create_method
from dgpbench.engine.spec import step_spec
from dgpbench.engine.trainer import Trainer
from dgpbench.gp.likelihoods.distributions import Poisson
from dgpbench.gp.parameters import unconstrain
from dgpbench.gp.start import build
from dgpbench.inference.mixing import effective_samples, split_rhat

COUNTS = (  # of 100 bins from the first disaster to the last: dataset=coal
    "4820434073331453674214365442433341322121300101103013220120101000210011033211311125100050001000001011"
)
BIN = 1.1101711156742  # years
START, BURN_IN, KEPT = 300, 150, 750
NAMES = [f"layer0/kernel/rbf/{name}" for name in ("lengthscales", "variance")]


@pytest.mark.slow
@pytest.mark.long
def test_hyperparameters_of_coal_have_the_marginals_of_a_grid():
    """Two chains under 30 inducing points; the evidence on the grid is that of the full model, by importance
    sampling around the Laplace approximation."""
    X, Y = BIN * (np.arange(100.0)[:, None] - 49.5), np.array([[float(c)] for c in COUNTS])
    chain = [f"inference.start.steps={START}", f"inference.burn_in={BURN_IN}", f"inference.kept={KEPT}"]
    steps = START + BURN_IN + KEPT
    words = ["experiment=matthews2016_coal_mcmc", "inference.thinning=1", "threads=1", *chain]
    cfg = compose([*words, f"budget.steps={steps}"])
    model, values, fixed, _ = build(cfg, X, Y, 0, 100, Poisson(BIN))
    method = create_method(cfg)
    bound = method.bound(model).on_rows(values, X)
    assert Y.sum() == 191 and bound.places is not None
    raw = unconstrain(values, bound.constraints())
    trainer = Trainer(step_spec(cfg, bound, method.update(bound), raw, fixed, 100, True, 1, "/CPU:0"))
    trainer.reset(raw, method.rates(), seed=0, num_data=100, jitter=1e-6, data=(X, Y))
    trainer.run(0, np.zeros((steps, 0), np.int32))
    draws = trainer.draws(steps)
    theta = np.log(np.stack([draws[name].reshape(2, KEPT) for name in NAMES], -1))  # chains, draws, 2
    effective = effective_samples(theta)
    mean, sd, weights = grid_moments(X[:, 0], Y[:, 0], BIN, draws=100, points=17)
    assert effective.min() > 150 and split_rhat(theta).max() < 1.05 and weights > 20
    flat = theta.reshape(-1, 2)
    assert np.all(np.abs(flat.mean(0) - mean) < 4 * sd / np.sqrt(effective))
    np.testing.assert_allclose(flat.std(0), sd, rtol=0.2)
