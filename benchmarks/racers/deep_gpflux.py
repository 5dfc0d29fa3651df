"""GPflux's documented deep GP: `build_constant_input_dim_deep_gp`, Adam, in a compiled step."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gpflow.keras import tf_keras
from gpflux.architectures import Config, build_constant_input_dim_deep_gp

from benchmarks.racing import shuffled
from benchmarks.steps.deep_gpflux import set_threads
from benchmarks.stopwatch import Stopwatch

__all__ = ["race", "set_threads"]


def race(data: dict, settings: dict, seed: int, seconds: float) -> tuple[Stopwatch, str | None]:
    tf_keras.backend.set_floatx("float64")
    tf.random.set_seed(seed)
    np.random.seed(seed)
    X, Y, X_test, Y_test = (data[name] for name in ("X", "Y", "X_test", "Y_test"))
    deep = build_constant_input_dim_deep_gp(
        X,
        num_layers=2,
        config=Config(
            num_inducing=min(settings["num_inducing"], len(X)),
            inner_layer_qsqrt_factor=1e-5,
            likelihood_noise_variance=1e-2,
            whiten=True,
        ),
    )
    model, predictor = deep.as_training_model(), deep.as_prediction_model()
    adam = tf_keras.optimizers.Adam(0.01)
    batch = min(settings["batch"], len(X))
    batches = shuffled(len(X), batch, seed)
    resident = tf.constant(X), tf.constant(Y)

    @tf.function
    def step(rows):
        inputs, targets = (tf.gather(A, rows) for A in resident)
        with tf.GradientTape() as tape:
            model({"inputs": inputs, "targets": targets}, training=True)
            loss = tf.add_n(model.losses)
        variables = model.trainable_variables
        adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))

    @tf.function
    def log_density():
        out = predictor(tf.constant(X_test))
        return -0.5 * (tf.square(Y_test - out.y_mean) / out.y_var + tf.math.log(2 * np.pi * out.y_var))

    def advance(steps: int) -> None:
        for _ in range(steps):
            step(tf.constant(next(batches)))

    def score() -> float:
        each = np.stack([log_density().numpy()[:, 0] for _ in range(settings["test_samples"])])
        return float((np.logaddexp.reduce(each, 0) - np.log(len(each))).mean())

    watch = Stopwatch(score, seconds)
    return watch, watch.run(advance)
