"""Compiled training steps: one `Trainer` per structure, reused for every split and seed.

Data, sizes, rates, jitter and PCA matrices are variables, not constants of the graph; `reset` assigns
everything, optimiser slots included. All randomness is stateless: noise is keyed by (seed, step), minibatches
come from the caller, so a step's result does not depend on how steps are grouped into blocks.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from dgpbench.engine.platform import tf
from dgpbench.engine.spec import StepSpec
from dgpbench.inference import natgrad, optimise
from dgpbench.inference.bounds import batch_term, bound_and_gradients
from dgpbench.models.parameters import constrain

KEPT_TRAINERS = 2  # compiled trainers kept for reuse in one process


class Trainer:
    """The state of one training run on one device and the compiled functions that advance it."""

    def __init__(self, spec: StepSpec):
        self.spec = spec
        natural = [name for i in spec.natural_layers for name in spec.model.parameter_names(i)]
        names = [name for name, _ in spec.shapes]
        self.trainable = [n for n in names if n not in spec.fixed and n not in natural]
        with tf.device(spec.device):
            zeros = {name: tf.zeros(shape, spec.param_dtype) for name, shape in spec.shapes}
            self.raw = {name: tf.Variable(z, name=name) for name, z in zeros.items()}
            self.slots = {f"{slot}/{n}": tf.Variable(zeros[n]) for n in self.trainable for slot in ("m", "v")}
            self.rates = {name: tf.Variable(0.0, dtype=tf.float64) for name in optimise.RATES}
            self.jitter = tf.Variable(0.0, dtype=spec.param_dtype)
            self.num_data = tf.Variable(0.0, dtype=tf.float64)
            self.seed = tf.Variable(0, dtype=tf.int32)
            d, p = spec.model.input_dim, spec.model.target_dim
            self.X = tf.Variable(tf.zeros((0, d), spec.batch_dtype), shape=(None, d))
            self.Y = tf.Variable(tf.zeros((0, p), spec.batch_dtype), shape=(None, p))
        term = _from_rows(batch_term(spec.model, spec.bound))
        self._term = tf.function(term, jit_compile=True) if spec.xla else term
        # one graph for blocks of any number of steps
        start, rows = tf.TensorSpec((), tf.int32), tf.TensorSpec((None, None), tf.int32)
        Xs, Ys = (tf.TensorSpec((None, spec.batch, width), spec.batch_dtype) for width in (d, p))
        self._resident = tf.function(self._resident_block, input_signature=[start, rows])
        self._streamed = tf.function(self._streamed_block, input_signature=[start, Xs, Ys])

    # ---- state ---------------------------------------------------------------------------------------

    def reset(
        self,
        raw: dict[str, np.ndarray],
        rates: dict[str, float],
        *,
        seed: int,
        num_data: int,
        jitter: float,
        data: tuple[np.ndarray, np.ndarray] | None,
    ) -> None:
        """Start afresh: parameters, slots, data (None when it will be streamed), rates, seed."""
        for name, variable in self.raw.items():
            variable.assign(raw[name])
        for variable in self.slots.values():
            variable.assign(tf.zeros_like(variable))
        for name, variable in self.rates.items():
            variable.assign(rates[name])
        self.jitter.assign(jitter)
        self.num_data.assign(num_data)
        self.seed.assign(seed)
        if data is not None:
            self.X.assign(data[0].astype(self.spec.batch_dtype.as_numpy_dtype))
            self.Y.assign(data[1].astype(self.spec.batch_dtype.as_numpy_dtype))

    def state(self) -> dict[str, np.ndarray]:
        """Everything that a checkpoint needs, as arrays."""
        named = {f"raw/{n}": v for n, v in self.raw.items()} | {f"slot/{n}": v for n, v in self.slots.items()}
        return {name: v.numpy() for name, v in named.items()} | {"jitter": self.jitter.numpy()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        for name, variable in self.raw.items():
            variable.assign(state[f"raw/{name}"])
        for name, variable in self.slots.items():
            variable.assign(state[f"slot/{name}"])
        self.jitter.assign(state["jitter"])

    def recover(self, attempt: int) -> float:
        """Ten times the jitter for each attempt; returns it."""
        jitter = float(self.jitter.numpy()) * 10.0**attempt
        self.jitter.assign(jitter)
        return jitter

    @property
    def row_width(self) -> int:
        """Numbers in one row of X and Y."""
        return self.X.shape[1] + self.Y.shape[1]

    def values(self) -> dict[str, np.ndarray]:
        """Constrained parameters."""
        return {name: v.numpy() for name, v in constrain(dict(self.raw)).items()}

    # ---- blocks of steps -----------------------------------------------------------------------------

    def run(self, start: int, rows: np.ndarray) -> dict[str, float]:
        """Run len(rows) steps from step number `start` on resident data.

        rows (steps, B) are the minibatches, or (steps, 0) for full batches.
        """
        with tf.device(self.spec.device):
            return _report(self._resident(tf.constant(start, tf.int32), tf.constant(rows, tf.int32)))

    def run_streamed(self, start: int, X: np.ndarray, Y: np.ndarray) -> dict[str, float]:
        """Run len(X) steps on the given minibatches X (steps, B, D), Y (steps, B, P)."""
        dtype = self.spec.batch_dtype.as_numpy_dtype
        with tf.device(self.spec.device):
            args = tf.constant(start, tf.int32), tf.constant(X.astype(dtype)), tf.constant(Y.astype(dtype))
            return _report(self._streamed(*args))

    def _resident_block(self, start, rows):
        total, last, halvings = tf.zeros((), tf.float64), tf.zeros((), tf.float64), 0
        for i in tf.range(tf.shape(rows)[0]):
            if self.spec.full_batch:
                X, Y = self.X.read_value(), self.Y.read_value()
            else:
                X, Y = tf.gather(self.X, rows[i]), tf.gather(self.Y, rows[i])
            last, refused = self._step(X, Y, start + i, rows[i])
            total += last
            halvings += refused
        return total / tf.cast(tf.shape(rows)[0], tf.float64), last, halvings

    def _streamed_block(self, start, Xs, Ys):
        total, last, halvings = tf.zeros((), tf.float64), tf.zeros((), tf.float64), 0
        for i in tf.range(tf.shape(Xs)[0]):
            last, refused = self._step(Xs[i], Ys[i], start + i, None)
            total += last
            halvings += refused
        return total / tf.cast(tf.shape(Xs)[0], tf.float64), last, halvings

    # ---- one step ------------------------------------------------------------------------------------

    def _chunks(self, X, Y, step, draw: int):
        """Chunks (X, Y, noise, start) of a batch, X and Y in rows; noise is keyed by (seed, step, draw)."""
        spec = self.spec
        shape = (max(spec.model.noise_dim, 1), spec.draws, spec.batch)
        if spec.model.noise_dim:
            key = tf.stack([self.seed, 2 * step + draw])
            noise = tf.random.stateless_normal(shape, key, dtype=tf.float32, alg="philox")
            noise = tf.cast(noise, spec.batch_dtype)
        else:
            noise = tf.zeros(shape, spec.batch_dtype)
        X, Y = tf.ensure_shape(X, (spec.batch, None)), tf.ensure_shape(Y, (spec.batch, None))
        out, a = [], 0
        for size in spec.chunks:
            part = tf.reshape(noise[:, :, a : a + size], (shape[0], spec.draws * size))
            out.append((X[a : a + size], Y[a : a + size], part, tf.constant(a)))
            a += size
        return out

    def _gradients(self, X, Y, step, draw: int, trainable, rows, q: dict | None = None):
        """See bound_and_gradients; `q` takes the place of parameters as they stand."""
        spec = self.spec
        if spec.full_batch:
            rows = tf.range(spec.batch)
        return bound_and_gradients(
            spec.model,
            {name: v.read_value() for name, v in self.raw.items()} | (q or {}),
            self._chunks(X, Y, step, draw),
            self.num_data / (spec.batch * spec.bound.samples),
            self._term,
            trainable=trainable,
            natural=spec.natural_layers,
            jitter=self.jitter,
            forms=spec.forms,
            batch_dtype=spec.batch_dtype,
            rows=rows,
        )

    @tf.autograph.experimental.do_not_convert
    def _step(self, X, Y, step, rows):
        """Natural gradient and Adam, from one gradient or (alternate) from a fresh one each."""
        spec = self.spec
        alternate = spec.alternate and spec.natural_layers and self.trainable
        bound, ordinary, natural = self._gradients(X, Y, step, 0, [] if alternate else self.trainable, rows)
        moved, refused = self._natural_steps(natural, step)
        bound, ordinary, moved = _all_there((bound, ordinary, moved))
        for name, value in moved.items():
            self.raw[name].assign(value)
        if alternate:
            bound, ordinary, _ = self._gradients(X, Y, step, 1, self.trainable, rows)
            bound, ordinary = _all_there((bound, ordinary))
        rate = optimise.learning_rate(self.rates, step)
        for name, gradient in ordinary.items():
            if spec.optimiser == "gd":
                self.raw[name].assign_add(tf.cast(rate, gradient.dtype) * gradient)
                continue
            m, v = self.slots[f"m/{name}"], self.slots[f"v/{name}"]
            optimise.adam_ascent(self.raw[name], m, v, gradient, rate, step)
        return tf.cast(bound, tf.float64), refused

    def _natural_steps(self, gradients, step):
        """Where a natural-gradient step takes the parameters of q(u), and how often a step was refused."""
        spec, refused, moved = self.spec, tf.constant(0), {}
        size = tf.cast(optimise.gamma(self.rates, step), spec.param_dtype)
        for i, (g_m, g_S) in gradients.items():
            names = spec.model.parameter_names(i)
            m, L = (self.raw[name].read_value() for name in names)
            lower = tf.linalg.band_part(L, -1, 0)
            last = i == len(spec.model.layers) - 1
            if last and spec.parameterisation == "natural" and spec.model.likelihood.log_concave:
                new = natgrad.natural_step(m, lower, g_m, g_S, size)
            else:
                *new, halvings = natgrad.step(spec.parameterisation, m, lower, g_m, g_S, size)
                refused += halvings
            moved |= dict(zip(names, new, strict=True))
        return moved, refused


def _from_rows(term):
    """`term` for X and Y in rows: transposed where XLA compiles it, which costs nothing there."""
    return lambda prepared, X, Y, *rest: term(prepared, tf.transpose(X), tf.transpose(Y), *rest)


def _all_there(values):
    """The same values, none before all: an update was seen to overtake reads of what it replaces."""
    with tf.control_dependencies(tf.nest.flatten(values)):
        return tf.nest.map_structure(tf.identity, values)


def _report(out) -> dict[str, float]:
    mean, last, halvings = (float(x) for x in out)
    return {"bound_mean": mean, "bound_last": last, "refused": int(halvings)}


_trainers: OrderedDict[StepSpec, Trainer] = OrderedDict()


def get_trainer(spec: StepSpec) -> Trainer:
    """A trainer for this structure, compiled before if one of the last few runs had the same."""
    if spec in _trainers:
        _trainers.move_to_end(spec)
    else:
        from dgpbench.engine.search import SearchTrainer  # built on this module

        _trainers[spec] = SearchTrainer(spec) if spec.direction else Trainer(spec)
        while len(_trainers) > KEPT_TRAINERS:
            _trainers.popitem(last=False)
    return _trainers[spec]


def latest_trainer() -> Trainer:
    """The trainer that was asked for last, for a look at a run from outside."""
    return next(reversed(_trainers.values()))
