"""Steps of SGHMC with a preconditioner that adapts in burn-in, and Adam on the hyperparameters meanwhile.

With g = grad(U / N) and M^-1 = G^(-1/2), G a running mean of g^2 over a window that adapts (Springenberg et
al. 2016), frozen after burn-in: one that goes on adapting leaves posteriors 1.5 to 1.8 times too wide.
    p <- p - step^2 M^-1 g - friction p + N(0, 2 step^2 friction M^-1 / N),   v <- v + p
In burn-in every step is followed by one Adam step on the hyperparameters, at a random one of the last
`window` values of v (moving-window Monte Carlo EM). After it they stay, and every `thinning`-th v is kept:
the last `kept` of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.inference.base import Batch, Oracle, Update
from dgpbench.inference.updates.adam import ADAM_RATES, adam_slots, adam_step, without
from dgpbench.inference.updates.schedules import all_there

TINY = 1e-16
STATE = ("xi", "g", "g2", "p")


@dataclass(frozen=True)
class AdaptiveSGHMC(Update):
    names: tuple[str, ...]  # parameters that are sampled
    burn_in: int
    thinning: int
    kept: int
    window: int
    rates = (*ADAM_RATES, "step", "friction")

    def slots(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        out = adam_slots({name: shapes[name] for name in without(list(shapes), self.names)})
        for name in self.names:
            out |= {f"{slot}/{name}": shapes[name] for slot in STATE}
            out |= {
                f"kept/{name}": (self.kept, *shapes[name]),
                f"window/{name}": (self.window, *shapes[name]),
            }
        return out

    def step(self, oracle: Oracle, batch: Batch) -> tuple[tf.Tensor, int]:
        value, gradients, _ = oracle(batch, self.names)
        moved: dict[str, tf.Tensor] = {}
        for stream, name in enumerate(self.names):
            moved |= self._moved(oracle, batch, name, gradients[name], stream)
        value, moved = all_there((value, moved))
        with tf.control_dependencies([v.assign(moved[name]) for name, v in self._state(oracle).items()]):
            adapting = batch.step < self.burn_in
            done = tf.cond(adapting, lambda: self._learn(oracle, batch), lambda: self._keep(oracle, batch))
        with tf.control_dependencies([done]):
            return tf.identity(value), 0

    def _state(self, oracle: Oracle) -> dict[str, tf.Variable]:
        """Variables of the dynamics, v among them, by slot and name."""
        named = {f"{slot}/{name}": oracle.slots[f"{slot}/{name}"] for slot in STATE for name in self.names}
        return named | {f"v/{name}": oracle.raw[name] for name in self.names}

    def _moved(self, oracle: Oracle, batch: Batch, name: str, gradient, stream: int) -> dict[str, tf.Tensor]:
        """The new state of one parameter."""
        dtype = gradient.dtype
        N, step, friction = (
            tf.cast(x, dtype) for x in (oracle.num_data, oracle.rates["step"], oracle.rates["friction"])
        )
        first = tf.cast(batch.step == 0, dtype)  # averages start at 1
        xi, g, g2 = (oracle.slots[f"{slot}/{name}"].read_value() + first for slot in STATE[:3])
        p, v = oracle.slots[f"p/{name}"].read_value(), oracle.raw[name].read_value()
        force = -gradient / N  # grad(U / N)
        r = 1.0 / (xi + 1.0)
        after = {
            "xi": 1.0 + xi * (1.0 - g * g / (g2 + TINY)),
            "g": (1.0 - r) * g + r * force,
            "g2": (1.0 - r) * g2 + r * tf.square(force),
        }
        adapting = batch.step < self.burn_in
        state = {
            slot: tf.where(adapting, after[slot], old)
            for slot, old in zip(STATE[:3], (xi, g, g2), strict=True)
        }
        inverse_mass = tf.math.rsqrt(g2 + TINY)
        key = oracle.key(batch, stream)
        noise = tf.random.stateless_normal(tf.shape(v), key, dtype=dtype, alg="philox")
        drift = step * step * inverse_mass
        state["p"] = p - drift * force - friction * p + tf.sqrt(2.0 * friction * drift / N) * noise
        state["v"] = v + state["p"]
        return {f"{slot}/{name}": value for slot, value in state.items()}

    def _learn(self, oracle: Oracle, batch: Batch) -> tf.Tensor:
        """Put v into the window, and move the hyperparameters at one of those that are there."""
        place = batch.step % self.window
        writes = [
            oracle.slots[f"window/{name}"].scatter_update(
                tf.IndexedSlices(oracle.raw[name].read_value()[None], place[None])
            )
            for name in self.names
        ]
        others = without(oracle.trainable, self.names)
        if not others:
            return tf.group(*writes) or tf.constant(True)
        with tf.control_dependencies(writes):
            filled = tf.minimum(batch.step + 1, self.window)
            key = oracle.key(batch, len(self.names))
            pick = tf.random.stateless_uniform((), key, 0, filled, tf.int32, alg="philox")
            held = {name: tf.gather(oracle.slots[f"window/{name}"], pick) for name in self.names}
            _, gradients, _ = oracle(batch, others, draw=1, replaced=held)
        adam_step(oracle, all_there(gradients), batch.step)
        return tf.constant(True)

    def _keep(self, oracle: Oracle, batch: Batch) -> tf.Tensor:
        """Put every `thinning`-th v into its place among those kept."""
        since = batch.step - self.burn_in + 1
        place = (since // self.thinning - 1) % self.kept

        def write() -> tf.Tensor:
            for name in self.names:
                v = oracle.raw[name].read_value()
                oracle.slots[f"kept/{name}"].scatter_update(tf.IndexedSlices(v[None], place[None]))
            return tf.constant(True)

        return tf.cond(since % self.thinning == 0, write, lambda: tf.constant(False))

    def _count(self, steps: int) -> int:
        return min(self.kept, max(0, steps - self.burn_in) // self.thinning)

    def incomplete(self, steps: int) -> str | None:
        if self._count(steps):
            return None
        return (
            f"training ended at step {steps}, before the first sample at {self.burn_in + self.thinning}; "
            "raise budget.seconds or shorten inference.burn_in"
        )

    def draws(self, slots: Mapping[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
        count = self._count(steps)
        return {name: slots[f"kept/{name}"][:count] for name in self.names} if count else {}
