"""Approximate EP: power EP without samples; its cavity moments by quadrature; gradients; what is refused."""

import numpy as np
import pytest
import tensorflow as tf
from inference_tools import columns, data, gradient_gap, model_of, resumes_bitwise, tensors
from scipy import stats

from dgpbench.config import compose
from dgpbench.errors import UserError
from dgpbench.inference.alpha import ApproximateEP, PowerEP
from dgpbench.inference.base import Numerics
from dgpbench.inference.gradients import lower_bound


def _value(bound, values, X, Y, noise=None):
    noise = tf.zeros((max(bound.noise_dim, 1), len(X)), tf.float64) if noise is None else noise
    return float(lower_bound(bound, tensors(bound, values), *columns(X, Y), noise, num_data=len(X)))


def _deep(N=8, M=4):
    X, Y = data(N)
    return X, Y, *model_of(compose(["inference=fast", "model=dgp2", f"model.num_inducing={M}"]), X, Y)[:2]


def test_one_layer_is_power_ep_at_alpha_one():
    X, Y = data(12, D=2)
    model, values, _ = model_of(compose(["inference=fast", "model=sgp", "model.num_inducing=5"]), X, Y)
    expected = _value(PowerEP(model, 1, 1.0), values, X, Y)
    assert _value(ApproximateEP(model), values, X, Y) == pytest.approx(expected, rel=1e-12)


def test_a_certain_inner_layer_leaves_nothing_to_project():
    """Without variance between the layers the samples of power EP are all the same point."""
    X, Y, model, values = _deep()
    values["layer0/kernel/white/variance"] = np.asarray(1e-10)
    values["layer0/kernel/rbf/variance"] = np.asarray(1e-9)
    values["layer0/q_sqrt"] = 1e-5 * values["layer0/q_sqrt"]
    noise = tf.constant(np.random.RandomState(0).randn(model.noise_dim, 3 * len(X)))
    sampled = _value(PowerEP(model, 3, 1.0), values, X, Y, noise)
    assert _value(ApproximateEP(model), values, X, Y) == pytest.approx(sampled, abs=0.02)


def test_the_energy_against_moments_by_quadrature():
    """log Z_n is the density of y under the projected Gaussian; the moments by Gauss-Hermite over the inner
    layer of the cavity, the energy's other parts those of power EP."""
    X, Y, model, values = _deep()
    bound, N = ApproximateEP(model), len(X)
    held = {name: tf.constant(v) for name, v in values.items()}
    prepared, _ = bound.prepare(held, Numerics(1e-6, num_data=tf.constant(float(N), tf.float64)))
    m, v = (a.numpy()[0] for a in model.layers[0].conditional(prepared["layer0"], tf.constant(X.T)))
    x, w = np.polynomial.hermite_e.hermegauss(60)
    total = 0.0
    for n in range(N):
        H = tf.constant((m[n] + np.sqrt(v[n]) * x)[None])
        mean, var = (a.numpy()[0] for a in model.layers[1].conditional(prepared["layer1"], H))
        weights = w / w.sum()
        centre = weights @ mean
        spread = weights @ var + weights @ (mean - centre) ** 2
        total += stats.norm(centre, np.sqrt(spread + 0.1)).logpdf(Y[n, 0])
    energy = sum(
        bound.penalty(held, prepared, Numerics(1e-6, num_data=tf.constant(float(N), tf.float64))).values()
    )
    assert _value(bound, values, X, Y) == pytest.approx(total - float(energy), rel=1e-7)


@pytest.mark.slow
def test_the_gradient_of_training_by_differences():
    X, Y, model, values = _deep(N=4, M=2)
    bound, names = ApproximateEP(model), list(values)
    assert gradient_gap(bound, values, X, Y, names) < 1e-4


@pytest.mark.slow
def test_a_stopped_run_goes_on_to_the_same_bits():
    X, Y = data(20, D=2)
    assert resumes_bitwise(["inference=aep", "model=dgp3", "model.num_inducing=4"], X, Y)


@pytest.mark.parametrize("own", ["aep", "analytic"])
@pytest.mark.parametrize(
    "words, says",
    [
        (["model.kernel=matern52"], "rbf, linear and white kernels and their sums; layer 1 has matern52"),
        (["model.kernel=rbf*linear"], "their sums; layer 1 has rbf"),
        (["model.kernel=rbf@0+linear"], "layer 1 has"),
        (["precision=float32"], "precision=mixed or float64"),
        (["model.inner_gps=1"], "inner_gps"),
    ],
)
def test_what_has_no_psi_statistics_is_refused_in_one_line(own, words, says):
    with pytest.raises(UserError, match=says) as error:
        compose([f"inference={own}", "model=dgp2", *words])
    assert "\n" not in str(error.value)


def test_the_first_layer_may_have_any_kernel():
    cfg = compose(
        ["inference=aep", "model=dgp2", "model.kernel=matern52", "model.layer_overrides={1:{kernel:rbf}}"]
    )
    assert cfg["inference"]["name"] == "aep"
