"""Steps of SGHMC with a preconditioner that adapts in burn-in, and Adam on the hyperparameters meanwhile.

With g = grad(U / N) and M^-1 = G^(-1/2), G a running mean of g^2 over a window that adapts (Springenberg et
al. 2016), frozen after burn-in: one that goes on adapting leaves posteriors 1.5 to 1.8 times too wide.
    p <- p - step^2 M^-1 g - friction p + N(0, 2 step^2 friction M^-1 / N),   v <- v + p
`released`: g = grad U with the same noise, as one public release has it. M^-1 is then N times smaller, the
drift the same, the noise's variance N times smaller: the chain runs at temperature 1 / N.
In burn-in every step is followed by one Adam step on the hyperparameters, at a random one of the last
`window` values of v (moving-window Monte Carlo EM). After it they stay, and every `thinning`-th v is kept:
the last `kept` of them. Chains share data and hyperparameters; each has its own state and noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.inference.base import Batch, Oracle, Update
from dgpbench.inference.mixing import mixing
from dgpbench.inference.updates.adam import ADAM_RATES, adam_slots, adam_step, without
from dgpbench.inference.updates.schedules import all_there

TINY = 1e-16
STATE = ("xi", "g", "g2", "p")


@dataclass(frozen=True)
class AdaptiveSGHMC(Update):
    names: tuple[str, ...]  # parameters that are sampled
    burn_in: int
    thinning: int
    kept: int  # of each chain
    window: int
    chains: int = 1
    released: bool = False
    reduced: str = ""  # note where `kept` is less than was asked for
    rates = (*ADAM_RATES, "step", "friction")

    def slots(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        out = adam_slots({name: shapes[name] for name in without(list(shapes), self.names)})
        for name in self.names:
            out[f"window/{name}"] = (self.window, *shapes[name])
            for chain in range(self.chains):
                out |= {_slot(slot, chain, name): shapes[name] for slot in STATE}
                out[_slot("kept", chain, name)] = (self.kept, *shapes[name])
                if chain:
                    out[_slot("v", chain, name)] = shapes[name]
        return out

    def step(self, oracle: Oracle, batch: Batch) -> tuple[tf.Tensor, int]:
        moved: dict[str, tf.Tensor] = {}
        values = []
        for chain in range(self.chains):
            at = self._at(oracle, batch, chain)
            draw = 1 + chain if chain else 0  # 1 is that of the hyperparameters
            value, gradients, _ = oracle(batch, self.names, draw=draw, replaced=at if chain else None)
            values.append(value)
            for i, name in enumerate(self.names):
                stream = i if not chain else (chain << 8) + i
                moved |= self._moved(oracle, batch, chain, name, at[name], gradients[name], stream)
        value, moved = all_there((values[0], moved))
        with tf.control_dependencies([self._variable(oracle, name).assign(v) for name, v in moved.items()]):
            adapting = batch.step < self.burn_in
            done = tf.cond(adapting, lambda: self._learn(oracle, batch), lambda: self._keep(oracle, batch))
        with tf.control_dependencies([done]):
            return tf.identity(value), 0

    def _variable(self, oracle: Oracle, name: str) -> tf.Variable:
        """The variable of a slot; v of the first chain is the parameter itself."""
        return oracle.raw[name.removeprefix("v/")] if name.startswith("v/") else oracle.slots[name]

    def _at(self, oracle: Oracle, batch: Batch, chain: int) -> dict[str, tf.Tensor]:
        """v of a chain; all start where the parameters do."""
        out = {}
        for name in self.names:
            start, own = (
                oracle.raw[name].read_value(),
                self._variable(oracle, _slot("v", chain, name)).read_value(),
            )
            out[name] = tf.where(batch.step == 0, start, own) if chain else own
        return out

    def _moved(self, oracle: Oracle, batch: Batch, chain: int, name: str, v, gradient, stream: int) -> dict:
        """The new state of one parameter in one chain, by slot."""
        dtype = gradient.dtype
        N, step, friction = (
            tf.cast(x, dtype) for x in (oracle.num_data, oracle.rates["step"], oracle.rates["friction"])
        )
        first = tf.cast(batch.step == 0, dtype)  # averages start at 1
        xi, g, g2, p = (oracle.slots[_slot(slot, chain, name)].read_value() for slot in STATE)
        xi, g, g2 = xi + first, g + first, g2 + first
        force = -gradient if self.released else -gradient / N  # grad(U / N)
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
        noise = tf.random.stateless_normal(tf.shape(v), oracle.key(batch, stream), dtype=dtype, alg="philox")
        drift = step * step * inverse_mass
        state["p"] = p - drift * force - friction * p + tf.sqrt(2.0 * friction * drift / N) * noise
        state["v"] = v + state["p"]
        return {_slot(slot, chain, name): value for slot, value in state.items()}

    def _learn(self, oracle: Oracle, batch: Batch) -> tf.Tensor:
        """Put v into the window, and move the hyperparameters at one of those that are there."""
        place = batch.step * self.chains
        writes = []
        for chain in range(self.chains):
            for name in self.names:
                v = self._variable(oracle, _slot("v", chain, name)).read_value()
                at = tf.IndexedSlices(v[None], ((place + chain) % self.window)[None])
                writes.append(oracle.slots[f"window/{name}"].scatter_update(at))
        others = without(oracle.trainable, self.names)
        if not others:
            return tf.group(*writes) or tf.constant(True)
        with tf.control_dependencies(writes):
            filled = tf.minimum(place + self.chains, self.window)
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
            for chain in range(self.chains):
                for name in self.names:
                    v = self._variable(oracle, _slot("v", chain, name)).read_value()
                    kept = oracle.slots[_slot("kept", chain, name)]
                    kept.scatter_update(tf.IndexedSlices(v[None], place[None]))
            return tf.constant(True)

        return tf.cond(since % self.thinning == 0, write, lambda: tf.constant(False))

    # ---- after training --------------------------------------------------------------------------------

    def incomplete(self, steps: int) -> str | None:
        if self._taken(steps):
            return None
        return (
            f"training ended at step {steps}, before the first sample at {self.burn_in + self.thinning}; "
            "raise budget.seconds or shorten inference.burn_in"
        )

    def _taken(self, steps: int) -> int:
        """Samples of each chain so far, those included that later ones replaced."""
        return max(0, steps - self.burn_in) // self.thinning

    def in_order(self, slots: Mapping[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
        """Kept states (chains, kept, *shape) of each parameter, the oldest first."""
        taken = self._taken(steps)
        count, first = min(self.kept, taken), max(0, taken - self.kept) % self.kept
        out = {}
        for name in self.names:
            chains = [slots[_slot("kept", chain, name)][:count] for chain in range(self.chains)]
            out[name] = np.stack([np.roll(kept, -first, 0) for kept in chains])
        return out

    def draws(self, slots: Mapping[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
        if not self._taken(steps):
            return {}
        return {name: v.reshape(-1, *v.shape[2:]) for name, v in self.in_order(slots, steps).items()}

    def facts(self, slots: Mapping[str, np.ndarray], steps: int) -> dict[str, dict[str, float]]:
        return {"chains": mixing(self.in_order(slots, steps))}


def _slot(slot: str, chain: int, name: str) -> str:
    """Name of a slot; the first chain has the plain one."""
    return f"{slot}{chain}/{name}" if chain else f"{slot}/{name}"
