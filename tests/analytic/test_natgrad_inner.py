"""Natural gradients of an inner layer: its dL/dm and dL/dS by finite differences, steps that agree, and a
start so narrow that they stand still."""

import numpy as np
import pytest
import tensorflow as tf
from gp_tools import columns, dgp, fast, raw_tensors

from dgpbench.config import compose
from dgpbench.gp.layer import kl_divergence
from dgpbench.inference import natgrad
from dgpbench.inference.bounds import VI
from dgpbench.inference.gradients import lower_bound
from dgpbench.inference.variational import PARAMETERISATIONS, Variational

N, M, DIM = 30, 4, 2


def _problem(seed=0):
    rng = np.random.RandomState(seed)
    X = rng.randn(N, DIM)
    Y = np.sin(2 * X[:, :1]) + 0.1 * rng.randn(N, 1)
    model, values = dgp(rng, dim=DIM, M=M)
    return X, Y, model, values, tf.constant(rng.randn(model.noise_dim, N))


def _pair(form="quad", **q):
    """(dL/dm, dL/dS) of the first layer's data part, as training takes them."""
    X, Y, model, values, noise = _problem()
    chunk = (*columns(X, Y), noise, tf.constant(0))
    raw = raw_tensors(values | q, model)
    return fast(VI(model), raw, [chunk], form, natural=(0, 1))[2][0]


def _data_part(m, S):
    """The data part of the bound at the first layer's q(u) = N(m, S), on the same noise."""
    X, Y, model, values, noise = _problem()
    values = values | {"layer0/q_mu": m, "layer0/q_sqrt": np.linalg.cholesky(S)}
    bound = lower_bound(VI(model), raw_tensors(values, model), *columns(X, Y), noise, num_data=N)
    kl = sum(float(kl_divergence(*(values[n] for n in model.parameter_names(i)))) for i in (0, 1))
    return float(bound) + kl


def _q():
    values = _problem()[3]
    m, L = values["layer0/q_mu"], np.tril(values["layer0/q_sqrt"])
    return m, L, L @ L.transpose(0, 2, 1)


@pytest.mark.parametrize("form", ["white", "quad"])
def test_gradients_of_the_inner_layer_against_finite_differences(form):
    m, _, S = _q()
    g_m, g_S = (g.numpy() for g in _pair(form))
    h = 1e-5
    for p, i, j in [(0, 0, 0), (0, 2, 1), (1, 3, 3), (1, 3, 0)]:
        step = np.zeros_like(m)
        step[p, i] = h
        slope = (_data_part(m + step, S) - _data_part(m - step, S)) / (2 * h)
        assert g_m[p, i] == pytest.approx(slope, rel=1e-6)
        turn = np.zeros_like(S)
        turn[p, i, j] = turn[p, j, i] = h
        slope = (_data_part(m, S + turn) - _data_part(m, S - turn)) / (2 * h)
        assert g_S[p, i, j] * (1 if i == j else 2) == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("name", [name for name in PARAMETERISATIONS if name != "natural"])
def test_small_steps_agree_with_those_in_natural_parameters(name):
    """Steps of size h differ by O(h^2) between two parameterisations: half of h leaves a quarter."""
    m, L, S = (tf.constant(a) for a in _q())
    pair = _pair()

    def moved(parameterisation, h):
        mean, root, halvings = natgrad.step(parameterisation, m, L, *pair, tf.constant(h, tf.float64))
        assert int(halvings) == 0
        return np.concatenate([np.ravel(mean - m), np.ravel(root @ tf.linalg.matrix_transpose(root) - S)])

    h = 1e-5
    gap = [np.linalg.norm(moved(name, s) - moved("natural", s)) for s in (h, h / 2)]
    assert gap[0] < 1e-2 * np.linalg.norm(moved("natural", h))
    assert gap[0] / gap[1] == pytest.approx(4.0, rel=0.05)


def test_a_narrow_start_makes_the_inner_layer_stand_still():
    """S = s^2 I with s = 1e-5: a step of size gamma divides S by 1 - gamma and hardly moves m."""
    X, Y, model, values, _ = _problem()
    gamma = tf.constant(0.01, tf.float64)

    def step(s):
        q = {"layer0/q_mu": np.zeros((DIM, M)), "layer0/q_sqrt": np.tile(np.eye(M) * s, (DIM, 1, 1))}
        m, L = (tf.constant(v) for v in q.values())
        mean, root, _ = natgrad.step("natural", m, L, *_pair(**q), gamma)
        return np.abs(mean).max(), np.linalg.eigvalsh(root @ tf.linalg.matrix_transpose(root)) / s**2

    small, growth = step(1e-5)
    assert small < 1e-7
    np.testing.assert_allclose(growth, 1 / 0.99, rtol=1e-4)
    wide, _ = step(0.1)
    assert wide > 1e4 * small


def test_inner_layers_have_a_step_of_their_own():
    words = ["model=dgp2", "inference=ngd_all", "inference.natgrad.gamma=0.02"]
    assert Variational(compose(words)).rates()["inner_gamma"] == 0.02
    own = Variational(compose([*words, "inference.natgrad.inner_gamma=0.005"])).rates()
    assert (own["gamma"], own["inner_gamma"]) == (0.02, 0.005)
