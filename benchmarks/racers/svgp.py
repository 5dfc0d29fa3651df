"""GPflow's SVGP as its documentation trains it: Adam on everything, minibatches, a compiled step."""

from __future__ import annotations

from dgpbench.engine.platform import set_threads, tf  # isort: skip  (before GPflow starts TensorFlow)

import gpflow
from gpflow.keras import tf_keras

from benchmarks.racing import shuffled
from benchmarks.stopwatch import Stopwatch

__all__ = ["race", "set_threads"]


def race(data: dict, settings: dict, seed: int, seconds: float) -> tuple[Stopwatch, str | None]:
    X, Y, X_test, Y_test = (data[name] for name in ("X", "Y", "X_test", "Y_test"))
    first = next(shuffled(len(X), min(settings["num_inducing"], len(X)), seed))
    kernel = gpflow.kernels.SquaredExponential(lengthscales=[1.0] * X.shape[1])
    model = gpflow.models.SVGP(kernel, gpflow.likelihoods.Gaussian(), X[first], num_data=len(X))
    variables, adam = model.trainable_variables, tf_keras.optimizers.Adam(0.01)
    batches = shuffled(len(X), min(settings["batch"], len(X)), seed)
    resident = tf.constant(X), tf.constant(Y)

    @tf.function
    def step(rows):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            loss = model.training_loss(tuple(tf.gather(A, rows) for A in resident))
        adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    def advance(steps: int) -> None:
        for _ in range(steps):
            step(tf.constant(next(batches)))

    def score() -> float:
        return float(tf.reduce_mean(model.predict_log_density((X_test, Y_test))))

    watch = Stopwatch(score, seconds)
    return watch, watch.run(advance)
