"""The fast A = L^-1 K fails loudly where its gradient would be wrong; the safe one has the right gradient."""

import numpy as np
import pytest
import tensorflow as tf
from inference_tools import columns, data, model_of, tensors

from dgpbench.config import compose
from dgpbench.gp.fast.forms import WrongGradient
from dgpbench.gp.layer import whiten
from dgpbench.gp.parameters import constrain, scope
from dgpbench.inference.base import Numerics
from dgpbench.inference.bounds import VI
from dgpbench.inference.gradients import batch_term, value_and_gradients

NAME = "layer0/kernel/rbf/lengthscales"


class InBatch(VI):
    """Uses the fast L^-1 for something of its own in the batch part."""

    def terms(self, prepared, X, Y, noise, start):
        K = self.model.layers[0].kernel.cross(prepared["layer0"].kernel, X)
        A = tf.matmul(prepared["layer0"].form.Linv.value, K)
        return super().terms(prepared, X, Y, noise, start) + tf.reduce_sum(A**3, 0)


class InPrepare(VI):
    """Uses it in the M x M part."""

    def penalty(self, values, prepared, numerics):
        return super().penalty(values, prepared, numerics) | {
            9: tf.reduce_sum(prepared["layer0"].form.Linv.value ** 2)
        }


def _problem():
    X, Y = data(12, D=2)
    model, values, _ = model_of(compose(["inference=fast", "model=sgp", "model.num_inducing=4"]), X, Y)
    return X, Y, model, values


def _gradient(bound, X, Y, values, form):
    noise = tf.zeros((1, len(X)), tf.float64)
    numerics = Numerics(tf.constant(1e-6, tf.float64), (form,), tf.float64)
    chunk = (*columns(X, Y), noise, tf.constant(0))
    raw, one = tensors(bound, values), tf.constant(1.0, tf.float64)
    return value_and_gradients(bound, raw, [chunk], one, batch_term(bound), numerics, trainable=[NAME])


@pytest.mark.parametrize("form", ["white", "half"])
@pytest.mark.parametrize("kind", [InBatch, InPrepare])
def test_any_other_use_of_the_fast_factor_is_stopped(kind, form):
    X, Y, model, values = _problem()
    with pytest.raises(WrongGradient, match="gp.layer.whiten"):
        _gradient(kind(model), X, Y, values, form)
    assert np.isfinite(_gradient(VI(model), X, Y, values, form)[0])


def test_the_safe_factor_has_the_whole_gradient():
    """Of sum(A^3) in a lengthscale and in Z, against central differences."""
    X, _, model, values = _problem()
    layer, (columns_X,) = model.layers[0], columns(X)
    raw = tensors(VI(model), values)

    def cubes(raw):
        p = scope(constrain(raw, model.constraints()), "layer0")
        L = tf.linalg.cholesky(layer.gram(p, 1e-6))
        kernel = layer.kernel.prepare(scope(p, "kernel"), p["Z"])
        return tf.reduce_sum(whiten(L, layer.kernel.cross(kernel, columns_X)) ** 3)

    with tf.GradientTape() as tape:
        tape.watch(raw)
        value = cubes(raw)
    slope = tape.gradient(value, raw)
    for name in (NAME, "layer0/Z"):
        for index in np.ndindex(*raw[name].shape):
            step = np.zeros(raw[name].shape)
            step[index] = 1e-6
            ends = [float(cubes(raw | {name: raw[name] + sign * step})) for sign in (1, -1)]
            assert float(slope[name][index]) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=2e-5, abs=1e-4)
    assert np.abs(slope["layer0/Z"]).max() > 0.1
