"""Line search and what it follows: against grids, finite differences, closed forms and scipy."""

import numpy as np
import pytest
import tensorflow as tf
from gp_tools import sgp
from test_natgrad import ALL, _bound, _gradients, _problem, _q, _with

from dgpbench.engine.spec import StepSpec
from dgpbench.engine.trainer import get_trainer
from dgpbench.gp.parameters import unconstrain
from dgpbench.inference import natgrad
from dgpbench.inference.bounds import VI
from dgpbench.inference.updates.adam import adam_ascent
from dgpbench.inference.updates.linesearch import (
    DIRECTIONS,
    AdamDirection,
    LBFGSDirection,
    LineSearch,
    best_step,
)


@pytest.mark.parametrize("best", [3e-7, 0.02, 1.0, 17.0])
def test_best_step_of_a_known_curve(best):
    gamma, value = best_step(lambda g: -(np.log(g / best) ** 2), -1e9)
    assert gamma == pytest.approx(best, rel=1e-3)
    assert value == pytest.approx(0.0, abs=1e-6)


def test_best_step_beside_a_wall_and_with_two_peaks():
    """Beyond 0.5 no step is possible; of two peaks the higher is taken, though it is the narrower."""
    gamma, _ = best_step(lambda g: g if g <= 0.5 else -np.inf, 0.0)
    assert gamma == pytest.approx(0.5, rel=1e-3) and gamma <= 0.5
    peaks = lambda g: np.exp(-(np.log(g / 1e-4) ** 2)) + 2 * np.exp(-4 * np.log(g / 3.0) ** 2)  # noqa: E731
    assert best_step(peaks, 0.0)[0] == pytest.approx(3.0, rel=1e-3)


def test_no_step_where_none_is_better():
    assert best_step(lambda g: -g, 0.0) == (0.0, 0.0)
    assert best_step(lambda g: -np.inf, 7.0) == (0.0, 7.0)


@pytest.mark.parametrize("name", ALL)
def test_ordinary_gradient_by_finite_differences(name):
    """dL/d xi along random directions that keep the shape of xi_2."""
    X, Y, model, values, _ = _problem()
    m, L = _q(values)
    d1, d2 = natgrad.gradient(name, m, L, *_gradients(X, Y, model, values))
    x1, x2 = natgrad.xi(name, m, L)
    rng, h = np.random.RandomState(1), 1e-5

    def bound(t, v1, v2):
        q = natgrad.mean_and_sqrt(name, x1 + t * v1, x2 + t * v2)
        return _bound(X, Y, model, _with(values, *q))

    for _ in range(2):
        v1, v2 = rng.randn(*x1.shape), rng.randn(*x2.shape)
        v2 = np.tril(v2) if name.endswith("sqrt") else v2 + v2.transpose(0, 2, 1)
        slope = (bound(h, v1, v2) - bound(-h, v1, v2)) / (2 * h)
        ours = np.sum(d1 * v1) + np.sum(d2 * v2)
        assert ours == pytest.approx(slope, rel=1e-4, abs=1e-4)


def test_signs_of_the_square_root_do_not_matter():
    """A column of L with the other sign is the same Gaussian: the same xi, the same two directions."""
    X, Y, model, values, _ = _problem()
    m, L = _q(values)
    other = L * np.array([1.0, -1, 1, -1, -1, 1])
    g = _gradients(X, Y, model, values)
    for find in (
        lambda L: natgrad.xi("meanvar_sqrt", m, L)[1],
        lambda L: natgrad.gradient("meanvar_sqrt", m, L, *g)[1],
        lambda L: natgrad.xi_direction("meanvar_sqrt", m, L, *natgrad.direction(m, L, *g))[1],
    ):
        np.testing.assert_allclose(find(other), find(L), rtol=1e-9, atol=1e-9)


def _trainer(direction, parameterisation, seed=0):
    X, Y, model, values, best = _problem(seed)
    raw = unconstrain(values, model.constraints())
    spec = StepSpec(
        bound=VI(model),
        update=LineSearch(model, 0, parameterisation, direction),
        shapes=tuple((name, v.shape) for name, v in raw.items()),
        fixed=frozenset(name for name in raw if "q_" not in name),
        batch=len(X),
        full_batch=True,
        xla=False,
    )
    trainer = get_trainer(spec)
    trainer.reset(raw, {}, seed=0, num_data=len(X), jitter=1e-6, data=(X, Y))
    return trainer, (X, Y, model, values, best)


def _run(trainer, steps, start=0):
    return trainer.run(start, np.zeros((steps, 0), np.int32))


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_natural_step_found_is_the_best_of_a_grid(name):
    """By brute force over gamma, from bounds that do not come from the trainer."""
    trainer, (X, Y, model, values, _) = _trainer("natural", name)
    found = _run(trainer, 1)
    m, L = _q(values)
    x = natgrad.xi(name, m, L)
    v = natgrad.xi_direction(name, m, L, *natgrad.direction(m, L, *_gradients(X, Y, model, values)))

    def bound(gamma):
        x2 = x[1] + gamma * v[1]
        if not bool(natgrad.inside_cone(name, x2)):
            return -np.inf
        value = _bound(X, Y, model, _with(values, *natgrad.mean_and_sqrt(name, x[0] + gamma * v[0], x2)))
        return value if np.isfinite(value) else -np.inf

    grid = found["step_size"] * np.geomspace(0.1, 10, 60)
    each = [bound(g) for g in grid]
    assert found["bound_last"] >= max(each) - 1e-9
    k = int(np.argmax(each))
    assert grid[max(k - 1, 0)] <= found["step_size"] <= grid[min(k + 1, 59)]
    assert bound(found["step_size"]) == pytest.approx(found["bound_last"], abs=1e-6)


@pytest.mark.slow
def test_natural_parameters_need_one_step_of_size_one():
    """The Gaussian case of figure 3.2; afterwards there is nothing left to find."""
    trainer, (*_, best) = _trainer("natural", "natural")
    report = _run(trainer, 1)
    assert report["step_size"] == pytest.approx(1.0, abs=2e-3)
    assert _run(trainer, 1, 1)["bound_last"] == pytest.approx(best[2], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["gradient", "adam", "lbfgs"])
def test_ordinary_directions_rise_towards_the_optimum(direction):
    """Every step is uphill; L-BFGS comes close to SGPR's bound, the others less so."""
    trainer, (X, Y, model, values, best) = _trainer(direction, "meanvar_sqrt")
    start, bounds = _bound(X, Y, model, values), []
    for step in range(25):
        bounds.append(_run(trainer, 1, step)["bound_last"])
    assert all(b >= a - 1e-9 for a, b in zip([start, *bounds], bounds, strict=False))
    gap = (best[2] - bounds[-1]) / (best[2] - start)
    assert 0.0 < gap < {"gradient": 0.3, "adam": 0.3, "lbfgs": 0.02}[direction]


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["natural", "adam", "lbfgs"])
def test_restored_search_goes_on_as_if_never_stopped(direction):
    trainer, _ = _trainer(direction, "meanvar_sqrt")
    _run(trainer, 3)
    kept = trainer.state()
    expected = [_run(trainer, 1, step)["bound_last"] for step in (3, 4)]
    _trainer(direction, "meanvar_sqrt")  # the same trainer, reset
    trainer.restore(kept)
    assert [_run(trainer, 1, step)["bound_last"] for step in (3, 4)] == expected


def test_adam_direction_is_that_of_the_compiled_adam():
    rng, rate = np.random.RandomState(0), 0.05
    var, m, v = (tf.Variable(np.zeros(5)) for _ in range(3))
    adam, x = AdamDirection(), np.zeros(5)
    for step in range(6):
        g = rng.randn(5)
        adam_ascent(var, m, v, tf.constant(g), rate, step)
        x = x + rate * adam(x, g)
        np.testing.assert_allclose(x, var.numpy(), rtol=1e-4)  # whose constants are in float32


def test_lbfgs_direction_is_newtons_on_a_quadratic():
    """With exact line searches on a quadratic of dimension n, n pairs make its inverse Hessian exact."""
    rng = np.random.RandomState(3)
    A = rng.randn(4, 4)
    A = A @ A.T + np.eye(4)
    b = rng.randn(4)
    x, follow = np.zeros(4), LBFGSDirection()
    for _ in range(5):
        g = b - A @ x  # of -x'Ax/2 + b'x
        d = follow(x, g)
        if np.linalg.norm(g) < 1e-10:
            break
        x = x + d * (g @ d) / (d @ A @ d)
    np.testing.assert_allclose(x, np.linalg.solve(A, b), atol=1e-8)
    assert set(DIRECTIONS) == {"gradient", "adam", "lbfgs"}


def test_constant_inputs_change_nothing():
    """Naval has 16 inputs in the thesis, two of them constant: with the same lengthscales the other 14 give
    the same bound and the same gradients."""
    rng = np.random.RandomState(2)
    model, values = sgp(rng, dim=3, M=7, P=1)
    X, Y = rng.randn(40, 3), rng.randn(40, 1)
    wide_model, _ = sgp(rng, dim=5, M=7, P=1)
    pad = lambda A: np.hstack([A, np.zeros((len(A), 2))])  # noqa: E731
    scales = values["layer0/kernel/rbf/lengthscales"]
    wide = values | {
        "layer0/Z": pad(values["layer0/Z"]),
        "layer0/kernel/rbf/lengthscales": np.concatenate([scales, [0.9, 2.0]]),
    }
    assert _bound(pad(X), Y, wide_model, wide) == pytest.approx(_bound(X, Y, model, values), abs=1e-9)
    for a, b in zip(_gradients(pad(X), Y, wide_model, wide), _gradients(X, Y, model, values), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)
