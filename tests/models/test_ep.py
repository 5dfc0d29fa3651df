"""EP and generalised FITC against importance sampling, sequential EP in NumPy and finite differences."""

import numpy as np
import pytest
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal, norm
from test_classics import context

from dgpbench.config import compose
from dgpbench.data import Split
from dgpbench.errors import UserError
from dgpbench.models.base import check_task, create

SCALE, JITTER = 0.8, 1e-6
KERNEL = ["model.kernel_variance=4", f"model.lengthscale={SCALE}", "model.ard=false", "likelihood=bernoulli"]
EPSILON = [0.0, 1e-3]


def data(rows, seed=0):
    rng = np.random.RandomState(seed)
    X = np.sort(rng.uniform(-2, 2, (rows, 1)), 0)
    return X, (np.sin(2 * X) + 0.5 * rng.randn(rows, 1) > 0).astype(float)


def split(X, Y):
    return Split.from_arrays(X, Y, task="binary", n_classes=2)


def at_start(name, X, Y, epsilon=0.0, *overrides):
    """A model whose sites have settled at the first hyperparameters, and its log evidence."""
    model = create(compose([f"model={name}", *KERNEL, f"likelihood.epsilon={epsilon}", *overrides]))
    kernel = {"kernel/rbf/variance": 4.0, "kernel/rbf/lengthscales": SCALE}
    model.load_parameters({"X": X, "Y": Y} | kernel | model.own_initial(X, 1, 0))
    return model, -float(model.model.training_loss())


def covariance(X, Z=None):
    return 4 * np.exp(-0.5 * (X - (X if Z is None else Z).T) ** 2 / SCALE**2)


def factors(F, Y, epsilon):
    return epsilon + (1 - 2 * epsilon) * norm.cdf((2 * Y - 1) * F)


@pytest.mark.parametrize("epsilon", EPSILON)
def test_five_points_against_importance_sampling(epsilon):
    """Evidence and the mean of f at a new input, by 400,000 weighted draws from a wide Gaussian near q."""
    X, Y = np.array([[-1.5], [-0.6], [0.1], [0.4], [1.3]]), np.array([[0.0], [0.0], [1.0], [0.0], [1.0]])
    model, evidence = at_start("ep_gpc", X, Y, epsilon)
    K, sign = covariance(X) + JITTER * np.eye(5), 2 * Y[:, 0] - 1
    q = model.values | model.own_values()
    cov = np.linalg.inv(np.linalg.inv(K) + np.diag(q["sites/precision"]))
    mean, rng = cov @ q["sites/shift"], np.random.default_rng(0)
    proposal = multivariate_normal(mean, 1.3 * cov)
    F = proposal.rvs(400_000, rng)
    w = np.prod(factors(F, Y[:, 0], epsilon), 1) * np.exp(
        multivariate_normal(np.zeros(5), K).logpdf(F) - proposal.logpdf(F)
    )
    error = w.std() / w.mean() / np.sqrt(len(w))
    assert error < 2e-3
    assert evidence == pytest.approx(
        np.log(w.mean()), abs=4 * error + 5e-3
    )  # EP itself errs by less than 5e-3
    x = np.array([[0.8]])
    found, var = model.moments(x)
    gain = np.linalg.solve(K, covariance(X, x))[:, 0]
    each = F @ gain
    exact = np.average(each, weights=w)
    assert found[0, 0] == pytest.approx(exact, abs=0.02)
    rest = 4 - gain @ covariance(X, x)[:, 0]
    assert var[0, 0] == pytest.approx(np.average((each - exact) ** 2, weights=w) + rest, rel=0.02)
    p = np.average(norm.cdf(each / np.sqrt(1 + rest)), weights=w)
    assert model.predict(x, 1, 0).probs[0, 1] == pytest.approx(epsilon + (1 - 2 * epsilon) * p, abs=5e-3)
    assert sign.sum() == -1


def sequential(K, sign, sweeps=60):
    """EP one site after another, by inverses (Rasmussen and Williams, algorithm 3.5): sites, log evidence."""
    N = len(K)
    tau, nu = np.zeros(N), np.zeros(N)
    inverse = np.linalg.inv(K)
    for _ in range(sweeps):
        for i in range(N):
            S = np.linalg.inv(inverse + np.diag(tau))
            m = S @ nu
            v = 1 / (1 / S[i, i] - tau[i])
            c = v * (m[i] / S[i, i] - nu[i])
            z = sign[i] * c / np.sqrt(1 + v)
            ratio = np.exp(norm.logpdf(z) - log_ndtr(z))
            mean = c + sign[i] * v * ratio / np.sqrt(1 + v)
            var = v - v**2 * ratio / (1 + v) * (z + ratio)
            tau[i], nu[i] = 1 / var - 1 / v, mean / var - c / v
    S = np.linalg.inv(inverse + np.diag(tau))
    m, s = S @ nu, np.diag(S)
    v = 1 / (1 / s - tau)
    c = v * (m / s - nu)
    total = K + np.diag(1 / tau)  # sites as Gaussians of f at nu / tau
    out = multivariate_normal(np.zeros(N), total).logpdf(nu / tau)
    out += np.sum(log_ndtr(sign * c / np.sqrt(1 + v)) - norm.logpdf(c, nu / tau, np.sqrt(v + 1 / tau)))
    return tau, nu, out


def test_sites_and_evidence_are_those_of_sequential_ep():
    X, Y = data(12)
    model, evidence = at_start("ep_gpc", X, Y)
    tau, nu, expected = sequential(covariance(X) + JITTER * np.eye(12), 2 * Y[:, 0] - 1)
    found = model.own_values()
    assert np.allclose(found["sites/precision"], tau, rtol=1e-6, atol=1e-7)
    assert np.allclose(found["sites/shift"], nu, rtol=1e-6, atol=1e-7)
    assert evidence == pytest.approx(expected, abs=1e-7)


def test_generalised_fitc_with_all_inputs_is_the_full_gp():
    X, Y = np.linspace(-2, 2, 9)[:, None], np.array([[0, 0, 1, 0, 1, 1, 1, 0, 1.0]]).T
    full, expected = at_start("ep_gpc", X, Y)
    sparse, evidence = at_start("gfitc", X, Y, 0.0, "model.num_inducing=9")
    assert np.allclose(np.sort(sparse.values["Z"], 0), X)
    assert evidence == pytest.approx(expected, abs=1e-4)
    new = np.linspace(-3, 3, 8)[:, None]
    for ours, theirs in zip(sparse.moments(new), full.moments(new), strict=True):
        assert np.allclose(ours, theirs, atol=1e-4)


def test_generalised_fitc_is_ep_under_its_own_prior():
    """Five rows, two inducing points: the evidence is that of sequential EP with Q + diag(K - Q)."""
    X, Y = data(8)
    model, evidence = at_start("gfitc", X, Y, 0.0, "model.num_inducing=2")
    Z = model.values["Z"]
    k = covariance(X, Z)
    Q = k @ np.linalg.solve(covariance(Z) + JITTER * np.eye(2), k.T)
    K = Q + np.diag(4 - np.diag(Q))
    tau, nu, expected = sequential(K, 2 * Y[:, 0] - 1)
    assert evidence == pytest.approx(expected, abs=1e-7)
    new = np.array([[0.3], [1.7]])
    P = np.linalg.solve(covariance(Z) + JITTER * np.eye(2), covariance(Z, new))
    cross = k @ P
    mean, var = model.moments(new)
    assert np.allclose(mean[:, 0], cross.T @ np.linalg.solve(K + np.diag(1 / tau), nu / tau), atol=1e-7)
    less = np.sum(cross * np.linalg.solve(K + np.diag(1 / tau), cross), 0)
    assert np.allclose(var[:, 0], 4 - less, atol=1e-7)


@pytest.mark.parametrize("name", ["ep_gpc", "gfitc"])
def test_the_gradient_is_that_of_finite_differences(name):
    import tensorflow as tf

    more = ["model.num_inducing=3"] if name == "gfitc" else []
    model, _ = at_start(name, *data(10), 1e-3, *more)
    inner = model.model
    with tf.GradientTape() as tape:
        loss = inner.training_loss()
    variables = inner.trainable_variables
    assert len(variables) == 2 + bool(more)
    for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        value, place = variable.numpy(), (0,) * variable.shape.rank
        ends = []
        for step in (1e-4, -1e-4):
            moved = np.array(value)
            moved[place] += step
            variable.assign(moved)
            ends.append(float(inner.training_loss()))
        variable.assign(value)
        slope = (ends[0] - ends[1]) / 2e-4
        assert gradient.numpy()[place] == pytest.approx(slope, rel=1e-4, abs=1e-6)


def test_training_raises_the_evidence_and_leaves_the_sites_at_rest():
    X, Y = data(40)
    model = create(compose(["model=gfitc", *KERNEL, "model.num_inducing=6"]))
    before = at_start("gfitc", X, Y, 1e-3, "model.num_inducing=6")[1]
    trained = model.fit(split(X, Y), context(30))
    assert trained["evidence"] > before + 0.5 and trained["site_change"] < 1e-6
    assert -float(model.model.training_loss()) == pytest.approx(trained["evidence"], abs=1e-6)
    assert "no bound" in trained["evidence_kind"]


def test_what_is_not_possible_is_said_in_one_line():
    X, Y = data(9)
    three = Split.from_arrays(X, np.arange(9.0)[:, None] % 3, task="multiclass", n_classes=3)
    for name in ("ep_gpc", "gfitc"):
        model = create(compose([f"model={name}"]))
        with pytest.raises(UserError, match=f"model {name} is for binary; dataset .* is multiclass: use"):
            check_task(model, name, three)
        with pytest.raises(UserError, match=f"likelihood=bernoulli_logit is not possible with model={name}"):
            create(compose([f"model={name}", "likelihood=bernoulli_logit"]))
    many = split(np.zeros((1_000_000, 1)), np.arange(1_000_000.0)[:, None] % 2)
    with pytest.raises(
        UserError, match="model=ep_gpc on 1,000,000 training rows .* 4,303 rows fit in .*=gfitc"
    ):
        create(compose(["model=ep_gpc"])).start(many, 0)
