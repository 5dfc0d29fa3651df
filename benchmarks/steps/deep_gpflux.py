"""GPflux: its deep GP, kernel and inducing inputs shared by the outputs of a layer, in a compiled step."""

from __future__ import annotations

import gpflow
import gpflux
import numpy as np
import tensorflow as tf
from gpflow.keras import tf_keras

from benchmarks.cases import Case, principal_map

INNER_SCALE = 1e-2  # of inner variances and q(u) at the start: the layers begin near their mean functions


def set_threads(threads: int) -> int:
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    return threads


def build(case: Case, precision: str, *, device: str = "cpu"):
    if device == "gpu" and not tf.config.list_physical_devices("GPU"):  # it takes one that it sees
        raise ValueError("TensorFlow sees no GPU")
    gpflow.config.set_default_float(np.dtype(precision).type)
    tf_keras.backend.set_floatx(precision)
    tf.random.set_seed(0)
    X, Y, Z = case.data(precision)
    likelihood = gpflux.layers.LikelihoodLayer(gpflow.likelihoods.Gaussian(0.05))
    layers = [_layer(case, i, X, Z) for i in range(case.depth)]
    model = gpflux.models.DeepGP(layers, likelihood, num_data=len(X)).as_training_model()
    adam = tf_keras.optimizers.Adam(0.01)
    batches = iter(tf.data.Dataset.from_tensor_slices((X, Y)).batch(case.batch).cache().repeat())

    @tf.function
    def step(X, Y):
        with tf.GradientTape() as tape:
            model({"inputs": X, "targets": Y}, training=True)
            loss = tf.add_n(model.losses)
        variables = model.trainable_variables
        adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    def run(steps: int) -> float:
        for _ in range(steps):
            loss = step(*next(batches))
        return float(loss)

    return run


def _layer(case: Case, index: int, X: np.ndarray, Z: np.ndarray):
    last = index == case.depth - 1
    D, P = case.widths[index], case.widths[index + 1]
    kernel = gpflux.helpers.construct_basic_kernel(
        gpflow.kernels.SquaredExponential(lengthscales=[2.0] * D, variance=1.0 if last else INNER_SCALE),
        output_dim=P,
        share_hyperparams=True,
    )
    inducing = gpflux.helpers.construct_basic_inducing_variables(
        num_inducing=case.num_inducing,
        input_dim=D,
        output_dim=P,
        share_variables=True,
        z_init=Z[:, :D].copy(),
    )
    if last:
        mean = gpflow.functions.Zero(output_dim=P)
    elif D == P:
        mean = gpflow.functions.Identity(D)
    else:
        mean = gpflow.functions.Linear(principal_map(X, P), np.zeros(P))
    layer = gpflux.layers.GPLayer(
        kernel, inducing, len(X), mean_function=mean, name=f"gp_{index}", num_latent_gps=P
    )
    if not last:
        layer.q_sqrt.assign(layer.q_sqrt * INNER_SCALE)
    return layer
