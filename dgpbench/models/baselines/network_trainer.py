"""Compiled Adam steps for the neural baselines, driven by the engine's loop as the GPs' trainer is.

Minibatches come from the caller and noise is keyed by (seed, step): a step's result does not depend on how
steps are grouped, on streaming, or on an interruption.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from dgpbench.engine.platform import tf
from dgpbench.inference import optimise
from dgpbench.models.parameters import constrain, unconstrain


class Network(Protocol):
    """A density model of y given x: its structure, hashable, and its bound as a pure function."""

    dim: int
    outputs: int
    noise_dim: int  # standard normals per point and sample of the bound

    def initial(self, rng: np.random.RandomState) -> dict[str, np.ndarray]:
        """Constrained parameters to start from."""

    def bound_terms(self, p: dict[str, tf.Tensor], X, Y, noise) -> tf.Tensor:
        """One term per column (B,) of X (D, B), Y (P, B), noise (noise_dim, B): log p(y | x) or a bound."""


@dataclass(frozen=True)
class NetworkSpec:
    """Everything that shapes the compiled step."""

    network: Network
    batch: int
    full_batch: bool
    samples: int = 1
    precision: str = "float64"
    xla: bool = True
    device: str = "/CPU:0"

    @property
    def dtype(self) -> tf.DType:
        """`mixed` is float64 here: networks have no part that would need more precision than the rest."""
        return tf.float32 if self.precision == "float32" else tf.float64


class NetworkTrainer:
    """The state of one training run and the compiled functions that advance it."""

    def __init__(self, spec: NetworkSpec):
        self.spec = spec
        d, p = spec.network.dim, spec.network.outputs
        shapes = {name: v.shape for name, v in spec.network.initial(np.random.RandomState(0)).items()}
        with tf.device(spec.device):
            zeros = {name: tf.zeros(shape, spec.dtype) for name, shape in shapes.items()}
            self.raw = {name: tf.Variable(z, name=name) for name, z in zeros.items()}
            self.slots = {f"{slot}/{n}": tf.Variable(z) for n, z in zeros.items() for slot in ("m", "v")}
            self.rates = {name: tf.Variable(0.0, dtype=tf.float64) for name in optimise.RATES}
            self.num_data = tf.Variable(0.0, dtype=tf.float64)
            self.seed = tf.Variable(0, dtype=tf.int32)
            self.X = tf.Variable(tf.zeros((0, d), spec.dtype), shape=(None, d))
            self.Y = tf.Variable(tf.zeros((0, p), spec.dtype), shape=(None, p))
        self._gradients = tf.function(self._bound_and_gradients, jit_compile=True if spec.xla else None)
        start, rows = tf.TensorSpec((), tf.int32), tf.TensorSpec((None, None), tf.int32)
        Xs, Ys = (tf.TensorSpec((None, spec.batch, width), spec.dtype) for width in (d, p))
        self._resident = tf.function(self._resident_block, input_signature=[start, rows])
        self._streamed = tf.function(self._streamed_block, input_signature=[start, Xs, Ys])

    # ---- state ---------------------------------------------------------------------------------------

    def reset(
        self, values: dict[str, np.ndarray], rates: dict[str, float], *, seed: int, num_data: int, data
    ) -> None:
        """Start afresh from constrained values; data (X, Y) in rows, None when they will be streamed."""
        for name, value in unconstrain(values).items():
            self.raw[name].assign(value)
        for variable in self.slots.values():
            variable.assign(tf.zeros_like(variable))
        for name, variable in self.rates.items():
            variable.assign(rates[name])
        self.num_data.assign(num_data)
        self.seed.assign(seed)
        if data is not None:
            self.X.assign(self._cast(data[0]))
            self.Y.assign(self._cast(data[1]))

    def state(self) -> dict[str, np.ndarray]:
        """Everything that a checkpoint needs, as arrays."""
        return {name: v.numpy() for name, v in self._variables().items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        for name, variable in self._variables().items():
            variable.assign(state[name])

    def _variables(self) -> dict[str, tf.Variable]:
        return {f"raw/{n}": v for n, v in self.raw.items()} | {f"slot/{n}": v for n, v in self.slots.items()}

    def values(self) -> dict[str, np.ndarray]:
        """Constrained parameters."""
        return {name: v.numpy() for name, v in constrain(dict(self.raw)).items()}

    def recover(self, attempt: int) -> None:
        """Nothing helps a network whose bound is not finite: the same steps would lead there again."""

    @property
    def row_width(self) -> int:
        return self.spec.network.dim + self.spec.network.outputs

    # ---- blocks of steps -----------------------------------------------------------------------------

    def run(self, start: int, rows: np.ndarray) -> dict[str, float]:
        """Steps from number `start` on: rows (steps, B) of the resident data, or (steps, 0) for all."""
        with tf.device(self.spec.device):
            return _report(*self._resident(tf.constant(start, tf.int32), tf.constant(rows, tf.int32)))

    def run_streamed(self, start: int, X: np.ndarray, Y: np.ndarray) -> dict[str, float]:
        """Steps on the given minibatches X (steps, B, D), Y (steps, B, P)."""
        with tf.device(self.spec.device):
            X, Y = tf.constant(self._cast(X)), tf.constant(self._cast(Y))
            return _report(*self._streamed(tf.constant(start, tf.int32), X, Y))

    def _resident_block(self, start, rows):
        total, last = tf.zeros((), tf.float64), tf.zeros((), tf.float64)
        for i in tf.range(tf.shape(rows)[0]):
            if self.spec.full_batch:
                X, Y = self.X.read_value(), self.Y.read_value()
            else:
                X, Y = tf.gather(self.X, rows[i]), tf.gather(self.Y, rows[i])
            last = self._step(X, Y, start + i)
            total += last
        return total / tf.cast(tf.shape(rows)[0], tf.float64), last

    def _streamed_block(self, start, Xs, Ys):
        total, last = tf.zeros((), tf.float64), tf.zeros((), tf.float64)
        for i in tf.range(tf.shape(Xs)[0]):
            last = self._step(Xs[i], Ys[i], start + i)
            total += last
        return total / tf.cast(tf.shape(Xs)[0], tf.float64), last

    # ---- one step ------------------------------------------------------------------------------------

    @tf.autograph.experimental.do_not_convert
    def _step(self, X, Y, step):
        spec = self.spec
        shape = (spec.network.noise_dim, spec.samples * spec.batch)
        noise = tf.random.stateless_normal(shape, tf.stack([self.seed, step]), dtype=tf.float32, alg="philox")
        X, Y = (tf.transpose(tf.ensure_shape(A, (spec.batch, None))) for A in (X, Y))
        raw = {name: v.read_value() for name, v in self.raw.items()}
        scale = tf.cast(self.num_data / (spec.batch * spec.samples), spec.dtype)
        bound, gradients = self._gradients(raw, X, Y, tf.cast(noise, spec.dtype), scale)
        rate = optimise.learning_rate(self.rates, step)
        for name, gradient in gradients.items():
            m, v = self.slots[f"m/{name}"], self.slots[f"v/{name}"]
            optimise.adam_ascent(self.raw[name], m, v, gradient, rate, step)
        return tf.cast(bound, tf.float64)

    def _bound_and_gradients(self, raw, X, Y, noise, scale):
        """The bound on the whole data's log-likelihood, estimated from a batch in columns."""
        X, Y = (tf.tile(A, (1, self.spec.samples)) for A in (X, Y))
        with tf.GradientTape() as tape:
            tape.watch(raw)
            terms = self.spec.network.bound_terms(constrain(raw), X, Y, noise)
            bound = scale * tf.reduce_sum(terms)
        return bound, tape.gradient(bound, raw)

    def _cast(self, array: np.ndarray) -> np.ndarray:
        return array.astype(self.spec.dtype.as_numpy_dtype)


def _report(mean, last) -> dict[str, float]:
    return {"bound_mean": float(mean), "bound_last": float(last), "refused": 0}


@lru_cache(maxsize=2)
def get_trainer(spec: NetworkSpec) -> NetworkTrainer:
    """A trainer for this structure, compiled before if one of the last two runs had the same."""
    return NetworkTrainer(spec)
