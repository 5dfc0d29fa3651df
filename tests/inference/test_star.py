"""Stripes and arrow: the joint Gaussian with the other covariances zero, gradients, checkpoints."""

import numpy as np
import pytest
import tensorflow as tf
from inference_tools import columns, data, gradient_gap, model_of, resumes_bitwise, tensors

from dgpbench.config import compose
from dgpbench.config.classes import create_method
from dgpbench.errors import UserError
from dgpbench.inference.base import Numerics
from dgpbench.inference.gradients import lower_bound
from dgpbench.inference.joint import Joint, Marginalised, MarginalisedStar, Star

M, P = 3, 2


def _model(words, N=6, outputs=1):
    X, Y = data(N, D=P, P=outputs)
    model, values, _ = model_of(
        compose(["inference=fast", f"model.num_inducing={M}", *words]), X, Y, noise=0.3
    )
    values, rng = Star(model).initial(values), np.random.RandomState(0)
    values["hidden/q_root"] += 0.2 * np.tril(rng.randn(*values["hidden/q_root"].shape), -1)
    cross = values[f"layer{len(model.layers) - 1}/q_cross"]
    cross += 0.2 * rng.randn(*cross.shape)
    return X, Y, model, values


def _dense(values, depth):
    """The same q as one group: hidden GPs by layers, not by positions."""
    order = [p * (depth - 1) * M + i * M + m for i in range(depth - 1) for p in range(P) for m in range(M)]
    root = np.zeros((len(order), len(order)))
    size = (depth - 1) * M
    for p, block in enumerate(values["hidden/q_root"]):
        root[p * size : (p + 1) * size, p * size : (p + 1) * size] = block
    cross = f"layer{depth - 1}/q_cross"
    return values | {"hidden/q_root": root[order][:, order][None], cross: values[cross][..., order]}


@pytest.mark.parametrize("depth, outputs", [(2, 1), (3, 1), (4, 1), (3, 2)])
def test_it_is_the_joint_gaussian_with_the_other_covariances_zero(depth, outputs):
    """Bound on the same noise, analytic; moments of the drawn u in the sampled one; KL."""
    X, Y, model, values = _model([f"model=dgp{depth}"], outputs=outputs)
    dense = _dense(values, depth)
    assert np.allclose(dense["hidden/q_root"], np.tril(dense["hidden/q_root"]))
    noise = tf.constant(np.random.RandomState(1).randn(model.noise_dim, 2 * len(X)))
    pairs = ((MarginalisedStar(model, 2), values), (Marginalised(model, 2), dense))
    a, b = (
        float(lower_bound(bound, tensors(bound, v), *columns(X, Y), noise, num_data=20)) for bound, v in pairs
    )
    assert a == pytest.approx(b, abs=1e-9)
    held = [{n: tf.constant(v) for n, v in one.items()} for one in (values, dense)]
    kl = [
        float(sum(kind(model).divergences(h).values())) for kind, h in zip((Star, Joint), held, strict=True)
    ]
    assert kl[0] == pytest.approx(kl[1], rel=1e-12)
    S = _drawn_covariance(Star(model), held[0], depth)
    root = dense["hidden/q_root"][0]
    np.testing.assert_allclose(S, root @ root.T, atol=0.15 * (root @ root.T).max())


def _drawn_covariance(bound, values, depth, count=2000):
    """Of the drawn whitened u of all hidden GPs, by layers."""

    @tf.function
    def one(key):
        layers, _ = bound.draw(values, Numerics(tf.constant(1e-6, tf.float64)), key)
        return tf.concat([tf.reshape(layers[f"layer{i}"].form.alpha, (-1,)) for i in range(depth - 1)], 0)

    return np.cov(np.array([one(tf.constant([0, k])).numpy() for k in range(count)]).T)


@pytest.mark.parametrize("kind", [Star, MarginalisedStar])
def test_gradient_against_finite_differences(kind):
    X, Y, model, values = _model(["model=dgp3"], N=4)
    names = ["hidden/q_root", "layer2/q_cross", "layer2/q_sqrt", "layer0/q_mu", "layer1/Z"]
    assert gradient_gap(kind(model), values, X, Y, names) < 1e-5


@pytest.mark.parametrize("words", [["precision=mixed", "inference.estimator=sampled"], ["precision=float64"]])
def test_minibatches_checkpoints_and_blocks_end_in_the_same_bits(words):
    X, Y = data(20, D=2)
    assert resumes_bitwise(["inference=star", "model=dgp3", "model.num_inducing=4", *words], X, Y)


def test_hidden_layers_of_different_widths_are_refused():
    X, Y = data(6, D=2)
    words = ["model=dgp3", "model.num_inducing=3", "model.layer_overrides={1:{width:1}}"]
    model, *_ = model_of(compose(["inference=fast", *words]), X, Y)
    with pytest.raises(UserError, match="2, 1 of them; set model.width"):
        create_method(compose(["inference=star", "precision=float64", *words])).bound(model)


@pytest.mark.parametrize(
    "words, says",
    [
        (["model=lv_gp"], "latent variables"),
        (["model=dgp2", "precision=float32"], "precision=mixed or float64"),
        (["model=dgp2", "precision=mixed"], "remove precision=mixed .*, or set inference.estimator=sampled"),
    ],
)
def test_a_config_that_does_not_fit_is_refused_in_one_line(words, says):
    with pytest.raises(UserError, match=says) as error:
        compose(["inference=star", *words])
    assert "\n" not in str(error.value)
