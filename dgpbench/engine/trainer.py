"""Compiled training steps: one `Trainer` per structure, GP or network, reused for every split and seed.

Data, sizes, rates, jitter and PCA matrices are variables, not constants of the graph; `reset` assigns
everything, the update's slots included. All randomness is stateless: noise is keyed by (seed, step),
minibatches come from the caller, so a step's result does not depend on how steps are grouped into blocks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from dgpbench.engine.oracle import TrainingOracle
from dgpbench.engine.platform import tf
from dgpbench.engine.spec import StepSpec
from dgpbench.gp.parameters import constrain
from dgpbench.inference.base import Batch

KEPT_TRAINERS = 2  # compiled trainers kept for reuse in one process
BOUND_SUM = "bound_sum"  # its name in a checkpoint
DRIVER = "direction/"  # before the names of a host update's state in a checkpoint


class Trainer:
    """The state of one training run on one device and the compiled functions that advance it."""

    def __init__(self, spec: StepSpec):
        self.spec, self.oracle = spec, TrainingOracle(spec)
        self.driver = spec.update.driver(self.oracle) if spec.update.host else None
        # one graph for blocks of any number of steps
        start, rows = tf.TensorSpec((), tf.int32), tf.TensorSpec((None, None), tf.int32)
        widths = spec.bound.input_dim, spec.bound.target_dim
        Xs, Ys = (tf.TensorSpec((None, spec.batch, width), spec.batch_dtype) for width in widths)
        with tf.device(spec.device):
            self._bound_sum = tf.Variable(0.0, dtype=tf.float64)  # of all steps since it was last taken
        self._one = tf.function(self._step, jit_compile=True) if spec.compile_step else self._step
        self._finite = tf.function(self._all_finite)
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
        jitter: float = 0.0,
        data: tuple[np.ndarray, np.ndarray] | None,
    ) -> None:
        """Reset parameters, slots, rates, seed and data (None when it will be streamed)."""
        oracle = self.oracle
        for name, variable in oracle.raw.items():
            variable.assign(raw[name])
        for variable in oracle.slots.values():
            variable.assign(tf.zeros_like(variable))
        for name, variable in oracle.rates.items():
            variable.assign(rates[name])
        oracle.jitter.assign(jitter)
        oracle.num_data.assign(num_data)
        oracle.seed.assign(seed)
        self._bound_sum.assign(0.0)
        if self.driver:
            self.driver.reset()
        if data is not None:
            oracle.X.assign(self._cast(data[0]))
            oracle.Y.assign(self._cast(data[1]))

    def _variables(self) -> dict[str, tf.Variable]:
        named = {f"raw/{n}": v for n, v in self.oracle.raw.items()}
        named |= {f"slot/{n}": v for n, v in self.oracle.slots.items()}
        return named | {"jitter": self.oracle.jitter, BOUND_SUM: self._bound_sum}

    def state(self) -> dict[str, np.ndarray]:
        """Return everything that a checkpoint needs, as arrays."""
        kept = self.driver.state() if self.driver else {}
        state = {name: v.numpy() for name, v in self._variables().items()}
        return state | {DRIVER + name: value for name, value in kept.items()}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        state = {BOUND_SUM: 0.0} | state  # older checkpoints have none
        for name, variable in self._variables().items():
            variable.assign(state[name])
        if self.driver:
            kept = {n.removeprefix(DRIVER): v for n, v in state.items() if n.startswith(DRIVER)}
            self.driver.restore(kept)

    def recover(self, attempt: int) -> float | None:
        """Multiply the jitter by ten for each attempt and return it.

        Return None for an objective without jitter, because the same steps would fail again.
        """
        if self.spec.bound.whole:
            return None
        jitter = float(self.oracle.jitter.numpy()) * 10.0**attempt
        self.oracle.jitter.assign(jitter)
        return jitter

    def take_bound_sum(self) -> float:
        """Return the sum of the bounds of all steps since the last call, and reset it.

        Bounds are added step by step, so that the sum does not depend on the blocks.
        """
        total = float(self._bound_sum.numpy())
        self._bound_sum.assign(0.0)
        return total

    @property
    def row_width(self) -> int:
        """Numbers in one row of X and Y."""
        return self.spec.bound.input_dim + self.spec.bound.target_dim

    @property
    def num_data(self) -> int:
        return int(self.oracle.num_data.numpy())

    def values(self) -> dict[str, np.ndarray]:
        """Return the constrained parameters, and the jitter of a bound that has one."""
        values = constrain(dict(self.oracle.raw), self.spec.bound.constraints())
        arrays = {name: v.numpy() for name, v in values.items()}
        return arrays if self.spec.bound.whole else arrays | {"jitter": self.oracle.jitter.numpy()}

    def draws(self, steps: int) -> dict[str, np.ndarray]:
        """Return the constrained draws (draws, *shape) that the update kept in `steps` steps."""
        raw = self.spec.update.draws(self._slots(), steps)
        constraints = self.spec.bound.constraints()
        return {name: v.numpy() for name, v in constrain(_tensors(raw), constraints).items()}

    def facts(self, steps: int) -> dict[str, dict[str, float]]:
        """Return the update's facts about `steps` steps."""
        return self.spec.update.facts(self._slots(), steps)

    def _slots(self) -> dict[str, np.ndarray]:
        return {name: v.numpy() for name, v in self.oracle.slots.items()}

    # ---- blocks of steps -----------------------------------------------------------------------------

    def run(self, start: int, rows: np.ndarray) -> dict[str, float]:
        """Run len(rows) steps from step number `start` on resident data.

        rows (steps, B) are the minibatches, or (steps, 0) for full batches.
        """
        with tf.device(self.spec.device):
            if self.driver:
                for step in range(start, start + len(rows)):
                    bound, size = self.driver.step(step)
                    self._bound_sum.assign_add(bound)
                found = {"bound_mean": bound, "bound_last": bound, "refused": 0, "step_size": size}
                return found | {"finite": bool(self._finite())}
            return self._report(self._resident(tf.constant(start, tf.int32), tf.constant(rows, tf.int32)))

    def run_streamed(self, start: int, X: np.ndarray, Y: np.ndarray) -> dict[str, float]:
        """Run len(X) steps on the given minibatches X (steps, B, D), Y (steps, B, P)."""
        with tf.device(self.spec.device):
            args = tf.constant(start, tf.int32), tf.constant(self._cast(X)), tf.constant(self._cast(Y))
            return self._report(self._streamed(*args))

    def _resident_block(self, start, rows):
        X, Y = self.oracle.X, self.oracle.Y

        def take(i):
            if self.spec.full_batch:
                return Batch(X.read_value(), Y.read_value(), start + i, rows[i])
            return Batch(tf.gather(X, rows[i]), tf.gather(Y, rows[i]), start + i, rows[i])

        return self._block(tf.shape(rows)[0], take)

    def _streamed_block(self, start, Xs, Ys):
        def take(i):
            return Batch(Xs[i], Ys[i], start + i, None)

        return self._block(tf.shape(Xs)[0], take)

    def _block(self, steps: tf.Tensor, take: Callable[[tf.Tensor], Batch]):
        """Run steps on the minibatches `take(i)`; return mean and last bound, and how many were refused."""
        total, last, refusals = tf.zeros((), tf.float64), tf.zeros((), tf.float64), 0
        together = self._bound_sum.read_value()
        for i in tf.range(steps):
            last, refused = self._one(take(i))
            total += last
            together += last
            refusals += refused
        self._bound_sum.assign(together)
        return total / tf.cast(steps, tf.float64), last, refusals

    @tf.autograph.experimental.do_not_convert
    def _step(self, batch: Batch):
        bound, refused = self.spec.update.step(self.oracle, batch)
        return tf.cast(bound, tf.float64), refused

    def _all_finite(self) -> tf.Tensor:
        each = [tf.reduce_all(tf.math.is_finite(v)) for v in self.oracle.raw.values()]
        return tf.reduce_all(tf.stack(each))

    def _report(self, out) -> dict[str, float]:
        mean, last, refused = (float(x) for x in out)
        finite = bool(self._finite())
        return {"bound_mean": mean, "bound_last": last, "refused": int(refused), "finite": finite}

    def _cast(self, array: np.ndarray) -> np.ndarray:
        return array.astype(self.spec.batch_dtype.as_numpy_dtype)


def _tensors(arrays: dict[str, np.ndarray]) -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in arrays.items()}


_trainers: OrderedDict[StepSpec, Trainer] = OrderedDict()


def get_trainer(spec: StepSpec) -> Trainer:
    """Return a trainer for this structure, reused if one of the last runs had the same."""
    if spec in _trainers:
        _trainers.move_to_end(spec)
    else:
        _trainers[spec] = Trainer(spec)
        while len(_trainers) > KEPT_TRAINERS:
            _trainers.popitem(last=False)
    return _trainers[spec]
