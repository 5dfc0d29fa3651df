"""The sampled GP against closed forms: conjugate posteriors, and a marginal of a hyperparameter on a grid."""

import numpy as np
import pytest
from scipy.stats import gamma, multivariate_normal
from test_classics import context, data, kernel

from dgpbench.config import compose
from dgpbench.data import Split
from dgpbench.errors import UserError
from dgpbench.inference.mixing import effective_samples
from dgpbench.models.base import create

VALUES = ["model.kernel_variance=1.3", "model.lengthscale=0.7", "model.likelihood_variance=0.3"]
CHAIN = ["model.step=0.2", "model.leapfrog=8"]
FIXED = ["model.priors={lengthscale: null, kernel_variance: null, likelihood_variance: null}"]


def fit(X, Y, steps, *overrides):
    model = create(compose(["model=gpmc", *VALUES, *CHAIN, *overrides, f"budget.steps={steps}"]))
    return model, model.fit(Split.from_arrays(X, Y), context(steps))


def within(chain, mean, sd, effective):
    """Means within four Monte Carlo errors, deviations within 10 %."""
    assert np.all(np.abs(chain.mean(0) - mean) < 4 * sd / np.sqrt(effective))
    np.testing.assert_allclose(chain.std(0), sd, rtol=0.1)


@pytest.mark.slow
def test_functions_of_a_conjugate_model():
    """Hyperparameters fixed: f at the rows and y at new ones are those of the exact GP."""
    X, Y = data(6)
    model, trained = fit(X, Y, 900, *FIXED, "model.chains=1", "model.burn_in=0.2", "model.kept=720")
    v, mixed = model.values, trained["checks"]["chains"]
    assert mixed["effective"] > 500 and mixed["rhat"] < 1.01 and 0.6 < mixed["accepted"] < 1.0
    K = kernel(v, X, X) + 1e-6 * np.eye(6)
    gain = K @ np.linalg.inv(K + 0.3 * np.eye(6))
    F = v["draws/V"][:, :, 0] @ np.linalg.cholesky(K).T
    within(F, gain @ Y[:, 0], np.sqrt(np.diag(K - gain @ K)), mixed["effective"])
    new = np.array([[0.3], [1.5]])
    model.load_parameters(v | {"draws/V": v["draws/V"][::6]})
    out, exact = model.predict(new, 1, 0), create(compose(["model=gpr", "model.ard=false"]))
    exact.load_parameters({n: a for n, a in v.items() if not n.startswith("draws/") and n != "V"})
    theirs = exact.predict(new, 1, 0)
    assert np.allclose(out.mixture_mean(), theirs.mean[0], atol=0.15)
    np.testing.assert_allclose(out.mixture_sd() ** 2, theirs.var[0], rtol=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(("N", "leapfrog"), [(20, 6), pytest.param(200, 10, marks=pytest.mark.long)])
def test_whitened_outputs_of_a_conjugate_model(N, leapfrog):
    """Hyperparameters fixed: each coordinate of v, a thousand effective samples. The noise grows with the
    rows, so that no coordinate is much narrower than another, and a trajectory is a quarter of a period."""
    (X, Y), noise, steps = data(N), 0.2 * N, 2000
    own = [f"model.likelihood_variance={noise}", "model.start_steps=20", "model.accept=0.97"]
    chain = ["model.chains=1", "model.burn_in=0.1", "model.kept=1800", f"model.leapfrog={leapfrog}"]
    model, trained = fit(X, Y, steps, *FIXED, *own, *chain)
    L = np.linalg.cholesky(kernel(model.values, X, X) + 1e-6 * np.eye(N))
    S = np.linalg.inv(np.eye(N) + L.T @ L / noise)
    V = model.values["draws/V"][:, :, 0]
    effective = effective_samples(V[None])
    assert effective.min() > 1000 and trained["checks"]["chains"]["rhat"] < 1.02
    within(V, S @ L.T @ Y[:, 0] / noise, np.sqrt(np.diag(S)), effective)


@pytest.mark.slow
def test_the_lengthscale_has_its_marginal():
    """Prior times evidence of the exact GP on a grid."""
    X, Y = data(8)
    model, trained = fit(
        X,
        Y,
        800,
        "model.chains=1",
        "model.burn_in=0.2",
        "model.kept=640",
        "model.leapfrog=16",
        "model.priors.kernel_variance=null",
        "model.priors.likelihood_variance=null",
    )
    grid = np.geomspace(0.05, 20, 800)
    noise = 0.3 * np.eye(8)
    log_p = [
        multivariate_normal(
            np.zeros(8), kernel(model.values | {"kernel/rbf/lengthscales": s}, X, X) + noise
        ).logpdf(Y[:, 0])
        for s in grid
    ]
    p = np.exp(log_p - np.max(log_p)) * gamma.pdf(grid, 2.0)
    p *= grid  # the grid is even in the logarithm
    p /= p.sum()
    mean = p @ np.log(grid)
    sd = np.sqrt(p @ (np.log(grid) - mean) ** 2)
    chain = np.log(model.values["draws/kernel/lengthscales"][:, :1])
    effective = trained["checks"]["chains"]["effective"]
    assert effective > 100
    assert abs(chain.mean() - mean) < 4 * sd / np.sqrt(effective) and chain.std() == pytest.approx(
        sd, rel=0.15
    )
    assert (
        set(model.values) >= {"draws/V", "draws/kernel/lengthscales"}
        and "draws/kernel/variance" not in model.values
    )


@pytest.mark.slow
def test_one_seed_one_chain_and_the_budget_shares_out():
    X, Y = data(5)
    (a, trained), (b, _) = (fit(X, Y, 9, "model.kept=2", "model.start_steps=2") for _ in range(2))
    assert a.values["draws/V"].shape == (4, 5, 1) and np.array_equal(a.values["draws/V"], b.values["draws/V"])
    assert trained["steps"] == 9 and trained["checks"]["chains"]["chains"] == 2
    out = a.predict(X, 1, 0)
    assert out.num_components == 4 and np.allclose(out.weights, 0.25)


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["budget.steps=null", "budget.seconds=9"], "set budget.steps"),
        (["model.priors.lengthscale=[gamma,-1,2]"], "the shape of gamma must be a positive number"),
        (["model.burn_in=1"], "below 1"),
        (["model.kept=0"], "at least 1"),
        (
            ["budget.steps=100", "model.kept=51"],
            "leaves 50 samples behind model.burn_in=0.5, fewer than",
        ),
    ],
)
def test_what_is_not_possible_is_said_in_one_line(overrides, says):
    with pytest.raises(UserError, match=says) as error:
        create(compose(["model=gpmc", *overrides]))
    assert "\n" not in str(error.value)
