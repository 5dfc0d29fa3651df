"""GPflow's SVGP: a compiled step of bound, gradient and Adam over a cached dataset."""

from __future__ import annotations

from dgpbench.engine.platform import choose_device, set_threads, tf  # isort: skip  (before GPflow starts TensorFlow)

import gpflow
from gpflow.keras import tf_keras

from benchmarks.cases import Case

__all__ = ["build", "set_threads"]


def build(case: Case, precision: str, *, device: str = "cpu"):
    choose_device(device)  # TensorFlow takes a GPU that it sees; an error if it sees none
    gpflow.config.set_default_float(getattr(tf, precision).as_numpy_dtype)
    X, Y, Z = case.data(precision)
    model = gpflow.models.SVGP(
        gpflow.kernels.SquaredExponential(lengthscales=[2.0] * case.inputs),
        gpflow.likelihoods.Gaussian(0.05),
        Z,
        num_data=len(X),
    )
    batches = iter(tf.data.Dataset.from_tensor_slices((X, Y)).batch(case.batch).cache().repeat())
    variables = model.trainable_variables
    adam = tf_keras.optimizers.Adam(0.01)

    @tf.function
    def step(batch):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            loss = model.training_loss(batch)
        adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    def run(steps: int) -> float:
        for _ in range(steps):
            loss = step(next(batches))
        return float(loss)

    return run
