"""The objective of a compiled step for updates: its value and gradient from data and noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace

from dgpbench.engine.platform import tf
from dgpbench.engine.spec import StepSpec
from dgpbench.inference.base import Batch, Bound, Numerics
from dgpbench.inference.gradients import batch_term, value_and_gradients, whole_term

FUSED = 128  # inducing points up to which starting operations costs more than a native Cholesky saves
UPDATE_STREAMS = 1 << 20  # the random streams of updates begin here


class TrainingOracle:
    """Variables of a run on one device, and the objective at them. See inference.base.Oracle."""

    def __init__(self, spec: StepSpec):
        self.spec, bound = spec, spec.bound
        self.trainable = list(spec.trainable)
        slots = spec.update.slots(spec.trainable)
        with tf.device(spec.device):
            zeros = {name: tf.zeros(shape, spec.param_dtype) for name, shape in spec.shapes}
            self.raw = {name: tf.Variable(z, name=name) for name, z in zeros.items()}
            self.slots = {name: tf.Variable(tf.zeros(s, spec.param_dtype)) for name, s in slots.items()}
            self.rates = {name: tf.Variable(0.0, dtype=tf.float64) for name in spec.update.rates}
            self.jitter = tf.Variable(0.0, dtype=spec.param_dtype)
            self.num_data = tf.Variable(0.0, dtype=tf.float64)
            self.seed = tf.Variable(0, dtype=tf.int64)  # TensorFlow places int32 variables on the host
            d, p = bound.input_dim, bound.target_dim
            self.X = tf.Variable(tf.zeros((0, d), spec.batch_dtype), shape=(None, d))
            self.Y = tf.Variable(tf.zeros((0, p), spec.batch_dtype), shape=(None, p))
        self._within = False  # inside an XLA program that includes the M x M part
        self._term = self._compiled()

    def _compiled(self):
        bound = self.spec.bound
        term = whole_term(bound) if bound.whole else _from_rows(batch_term(bound))
        return tf.function(term, jit_compile=True) if self.spec.xla else term

    def of(self, bound: Bound) -> TrainingOracle:
        other = copy(self)
        other.spec = replace(self.spec, bound=bound)
        other._term = other._compiled()
        return other

    def fused(self, function: Callable) -> Callable:
        spec = self.spec
        if not spec.xla or set(spec.forms or ()) != {"point"} or spec.bound.tallest > FUSED:
            return tf.function(lambda *args: function(self, *args), autograph=False)
        other = copy(self)
        other._within = "GPU" not in spec.device
        return tf.function(lambda *args: function(other, *args), jit_compile=True, autograph=False)

    def __call__(
        self,
        batch: Batch,
        names: Sequence[str],
        natural: Sequence[int] = (),
        draw: int = 0,
        replaced: Mapping[str, tf.Tensor] | None = None,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor], dict[int, tuple[tf.Tensor, tf.Tensor]]]:
        spec = self.spec
        raw = {name: v.read_value() for name, v in self.raw.items()} | dict(replaced or {})
        X, Y = (tf.ensure_shape(A, (spec.batch, None)) for A in (batch.X, batch.Y))
        key = self._key(spec.bound.evaluations * batch.step + draw)
        weight = self.num_data / (spec.batch * spec.bound.repeats)
        noise = self._noise(key)
        if spec.bound.whole:
            flat = tf.reshape(noise, (noise.shape[0], -1))
            scale = tf.cast(weight, spec.param_dtype)
            value, gradients = self._term(raw, tf.transpose(X), tf.transpose(Y), flat, scale)
            return value, {name: gradients[name] for name in names}, {}
        return value_and_gradients(
            spec.bound,
            raw,
            self._chunks(X, Y, noise),
            weight,
            self._term,
            Numerics(self.jitter, spec.forms, spec.batch_dtype, natural, self._count, self._within),
            trainable=names,
            key=key,
            rows=tf.range(spec.batch) if spec.full_batch else batch.rows,
        )

    def full_batch(self, step) -> Batch:
        return Batch(self.X.read_value(), self.Y.read_value(), step, None)

    def key(self, batch: Batch, stream: int) -> tf.Tensor:
        return tf.random.experimental.stateless_fold_in(self._key(batch.step), UPDATE_STREAMS + stream)

    def _key(self, evaluation: tf.Tensor) -> tf.Tensor:
        return tf.stack([tf.cast(self.seed, tf.int32), evaluation])

    @property
    def _count(self) -> tf.Tensor:
        return tf.cast(self.num_data, self.spec.param_dtype)

    def _noise(self, key) -> tf.Tensor:
        """Return standard normals (noise_dim, columns, B), keyed by seed, step and evaluation."""
        spec, bound = self.spec, self.spec.bound
        shape = (max(bound.noise_dim, 1), bound.noise_columns, spec.batch)
        if not bound.noise_dim:
            return tf.zeros(shape, spec.batch_dtype)
        noise = tf.random.stateless_normal(shape, key, dtype=tf.float32, alg="philox")
        return tf.cast(noise, spec.batch_dtype)

    def _chunks(self, X, Y, noise):
        """Return the chunks (X, Y, noise, start) of a batch, X and Y in rows."""
        out, a = [], 0
        for size in self.spec.chunks:
            part = tf.reshape(noise[:, :, a : a + size], (noise.shape[0], noise.shape[1] * size))
            out.append((X[a : a + size], Y[a : a + size], part, tf.constant(a)))
            a += size
        return out


def _from_rows(term):
    """Return `term` for X and Y in rows. XLA compiles the transposition, which costs nothing there."""
    return lambda prepared, X, Y, *rest: term(prepared, tf.transpose(X), tf.transpose(Y), *rest)
