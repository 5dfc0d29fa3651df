"""The engine's bound and gradients against automatic differentiation of the definition; DReG; joint draws."""

import numpy as np
import pytest
import tensorflow as tf
from latent_tools import columns, conditional, data, fast, model, noise_for, raw

from dgpbench.gp.deep_gp import prepare
from dgpbench.gp.fast.joint_samples import enough_jitter, pairs, sample
from dgpbench.inference.bounds import IWVI, VI, Optimal
from dgpbench.inference.gradients import lower_bound


def iw(samples, K, **kwargs):
    return lambda structure: IWVI(structure, samples, K, **kwargs)


CASES = {
    "vi": (["model=lv_gp_gp"], lambda structure: VI(structure, 2)),
    "iwvi": (["model=lv_gp_gp"], iw(2, 3)),
    "many": (["model=lv_gp_gp"], iw(1, 10)),
    "two-latents": (["model.layers=[lv,gp,lv,gp]", "model.latent_dim=2"], iw(1, 3)),
    "apart": (["model=lv_gp_gp"], iw(1, 3, joint=False)),
    "between": (["model=gp_lv_gp"], iw(2, 3)),
    "free": (["model=lv_gp_gp", "inference.latent_q=free"], iw(1, 3)),
    "optimal": (["model=gp_lv_gp"], lambda structure: Optimal(structure, 2, 32)),
    "hermite": (["model=lv_gp", "model.latent_dim=2"], lambda structure: Optimal(structure, 1, 5, "hermite")),
    "matern": (["model=lv_gp_gp", "model.kernel=matern32+linear"], iw(1, 3)),
    "arccosine": (["model=lv_gp_gp", "model.kernel=arccosine1+white"], iw(1, 3)),
    "product": (["model=lv_gp_gp", "model.kernel=rbf@0:2*periodic+gibbs"], iw(1, 3)),
    "mixed": (["model=cde", "model.output_gps=1"], iw(1, 3)),
    "projection": (
        ["model=cde", "model.layers=[linear,lv,gp]", "model.projection_dim=2"],
        iw(2, 3),
    ),
    "lvm": (["model=gplvm", "model.latent_dim=2"], VI),
}


@pytest.mark.parametrize("form", ["white", "half", "quad"])
@pytest.mark.parametrize("case", CASES)
def test_fast_bound_and_gradient_equal_the_definition(case, form):
    overrides, kind_of = CASES[case]
    rng = np.random.RandomState(0)
    X, Y = data(rng, 9, D=3, P=2)
    structure, values, fixed = model(rng, X, Y, *overrides)
    X, kind = X[:, : structure.input_dim], kind_of(structure)
    noise = noise_for(rng, kind, 9)
    rows = tf.range(9) if case == "free" else None
    tensors = raw(values, structure)
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        flat = tf.constant(noise.reshape(structure.noise_dim, -1))
        expected = lower_bound(kind, tensors, *columns(X, Y), flat, num_data=30, rows=rows)
    gradient = tape.gradient(expected, tensors, unconnected_gradients="zero")
    bound, found, _ = fast(kind, values, fixed, X, Y, noise, [4, 5], 30, rows=rows, form=form)
    assert float(bound) == pytest.approx(float(expected), rel=1e-9)
    assert set(found) == set(values) - fixed
    for name in found:
        scale = max(np.abs(tf.convert_to_tensor(gradient[name])).max(), 1e-3)
        np.testing.assert_allclose(
            found[name], tf.convert_to_tensor(gradient[name]), atol=2e-7 * scale, err_msg=name
        )


@pytest.mark.slow
@pytest.mark.parametrize("K", [3, 12])
@pytest.mark.parametrize("mixing", ["model.inner_gps=2", "model.inner_gps=null"])
def test_the_K_samples_have_the_joint_covariance_of_one_function(K, mixing):
    """Unit vectors of noise give the Cholesky factor, and its square is the full conditional."""
    rng = np.random.RandomState(1)
    X, Y = data(rng, 4, D=2)
    structure, values, _ = model(rng, X, Y, "model=lv_gp_gp", mixing)
    layer, jitter, C = structure.layers[1], 1e-8, 4
    tensors = {name: tf.constant(v) for name, v in values.items()}
    batch = prepare(structure, tensors, jitter)[0]["layer1"]
    H = rng.randn(3, K * C)
    P = layer.output_dim
    mix = values["layer1/P"] if layer.mixed else np.eye(P)

    def draw(eps):
        return layer.sample(batch, tf.constant(H), tf.constant(eps), K, jitter).numpy()

    middle = draw(np.zeros((P, K * C)))
    for c in range(C):
        points = H[:, c::C].T  # the K inputs of point c
        moments = [conditional(values, 1, points, p, jitter) for p in range(P)]
        mean = mix @ np.stack([m for m, _ in moments]) + points.T
        np.testing.assert_allclose(middle[:, c::C], mean, atol=1e-6)
        factor = []  # what each unit of noise adds to all outputs and samples of this point
        for p in range(P):
            for k in range(K):
                eps = np.zeros((P, K * C))
                eps[p, k * C + c] = 1.0
                factor.append((draw(eps) - middle)[:, c::C].reshape(-1))
        factor = np.stack(factor, 1)
        blocks = np.einsum("ip,pkj,qp->ikqj", mix, np.stack([v for _, v in moments]), mix)
        np.testing.assert_allclose(factor @ factor.T, blocks.reshape(factor.shape[0], -1), atol=1e-5)


@pytest.mark.parametrize("variance", [0.1, 30.0])
@pytest.mark.parametrize("K", [5, 8, 10, 20])
def test_float32_draws_at_nearly_equal_inputs_are_one_draw(K, variance):
    """Covariances of rank one but for 1e-4, off by 1e-6 as in float32: samples of a point nearly agree."""
    rng = np.random.RandomState(4)
    C = 200
    x, error = 0.01 * rng.randn(K, C), 1e-6 * rng.randn(K, K, C)
    full = variance * (np.exp(-0.5 * (x[:, None] - x[None]) ** 2) + error)
    entries = tf.constant(np.stack([full[k, j] for k, j in pairs(K)]), tf.float32)  # T, C
    eps = rng.randn(K, C)
    flat = tf.constant(eps.reshape(1, -1), tf.float32)
    jitter = enough_jitter(1e-6, entries)
    draws = sample(tf.zeros_like(flat), entries[:, None], flat, K, jitter).numpy().reshape(K, C)
    np.testing.assert_allclose(draws / np.sqrt(variance), np.tile(eps[:1], (K, 1)), atol=0.2)


@pytest.mark.slow
def test_dreg_has_the_same_mean_and_less_noise():
    """Near the posterior, here about the prior, the ordinary gradient is mostly noise."""
    rng = np.random.RandomState(2)
    X, Y = data(rng, 4)
    structure, values, fixed = model(rng, X, Y, "model=lv_gp", "inference.latent_q=free", noise=4.0)
    values |= {"layer0/local/mean": np.full((4, 1), 0.3), "layer0/local/scale": np.full((4, 1), 0.8)}
    plain, dreg = (IWVI(structure, 1, 8, dreg=dreg) for dreg in (False, True))

    @tf.function
    def both(noise):
        kinds = (plain, dreg)
        return [fast(k, values, fixed, X, Y, noise, [4], 4, rows=tf.range(4))[:2] for k in kinds]

    found = []
    for _ in range(2000):
        (bound, a), (same, b) = both(tf.constant(rng.randn(structure.noise_dim, 8, 4)))
        found.append([np.hstack([g[f"layer0/local/{n}"] for n in ("mean", "scale")]).ravel() for g in (a, b)])
    assert float(bound) == pytest.approx(float(same), rel=1e-10)
    for name in a:  # all other gradients are those of iwvi
        if "local" not in name:
            np.testing.assert_allclose(a[name], b[name], atol=1e-9, err_msg=name)
    a, b = np.array(found).transpose(1, 0, 2)
    error = np.sqrt((a.var(0) + b.var(0)) / len(a))
    assert np.all(np.abs(a.mean(0) - b.mean(0)) < 4.5 * error)
    assert np.all(b.var(0) < 0.5 * a.var(0))
    assert np.all(np.abs(a.mean(0)) > 3 * error)  # the test could see a wrong factor
