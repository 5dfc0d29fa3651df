"""Every kernel part against GPflow's, as a cross matrix, a gram matrix and a diagonal."""

import gpflow
import numpy as np
import pytest
import tensorflow as tf

from dgpbench.models.kernels import Kernel

D = 3
SCALES = np.array([0.5, 1.0, 2.0])


def _pair(part, ard):
    """Our parameters and the GPflow kernel with the same ones."""
    scales = SCALES if ard else np.asarray(0.8)
    stationary = {
        "rbf": "SquaredExponential",
        "matern12": "Matern12",
        "matern32": "Matern32",
        "matern52": "Matern52",
    }
    if part in stationary:
        kernel = getattr(gpflow.kernels, stationary[part])(variance=1.7, lengthscales=scales)
        return {f"{part}/variance": np.asarray(1.7), f"{part}/lengthscales": scales}, kernel
    if part.startswith("arccosine"):
        kernel = gpflow.kernels.ArcCosine(
            order=int(part[-1]), variance=1.7, weight_variances=scales, bias_variance=0.3
        )
        ours = {"variance": np.asarray(1.7), "weight_variances": scales, "bias_variance": np.asarray(0.3)}
        return {f"{part}/{name}": v for name, v in ours.items()}, kernel
    if part == "linear":
        return {"linear/variances": scales}, gpflow.kernels.Linear(variance=scales)
    return {"white/variance": np.asarray(0.2)}, gpflow.kernels.White(0.2)


SUMS = [
    "rbf",
    "matern12",
    "matern32",
    "matern52",
    "arccosine0",
    "arccosine1",
    "arccosine2",
    "linear",
    "rbf+white",
    "rbf+linear",
    "matern52+linear+white",
]


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("text", SUMS)
def test_equals_gpflow(text, ard):
    rng = np.random.RandomState(0)
    Z, X = rng.randn(7, D), rng.randn(11, D)
    kernel = Kernel.parse(text, D, ard)
    pairs = [_pair(part, ard) for part in kernel.parts]
    values = {name: tf.constant(v) for ours, _ in pairs for name, v in ours.items()}
    theirs = pairs[0][1] if len(pairs) == 1 else gpflow.kernels.Sum([k for _, k in pairs])
    prepared = kernel.prepare(values, tf.constant(Z))
    tolerance = 1e-7 if text == "arccosine0" else 1e-12  # acos is steep where the angle is 0
    np.testing.assert_allclose(kernel.cross(prepared, tf.constant(X.T)), theirs.K(Z, X), atol=tolerance)
    np.testing.assert_allclose(kernel.gram(prepared), theirs.K(Z), atol=tolerance)
    diagonal = np.broadcast_to(kernel.diagonal(prepared, tf.constant(X.T)), (1, 11))[0]
    np.testing.assert_allclose(diagonal, theirs.K_diag(X), atol=1e-12)


@pytest.mark.parametrize("text", ["rbf", "matern32", "arccosine1", "rbf+linear"])
def test_initial_values_have_the_names_that_prepare_reads(text):
    kernel = Kernel.parse(text + "+white", D, True)
    initial = kernel.initial(2.0, 3.0, 1e-3)
    prepared = kernel.prepare({k: tf.constant(v) for k, v in initial.items()}, tf.ones((2, D), tf.float64))
    gram = kernel.gram(prepared).numpy()
    assert gram[0, 0] - gram[0, 1] == pytest.approx(1e-3)  # equal rows differ by the white noise alone
