"""Hamiltonian chains by TensorFlow Probability behind a Gaussian fit: the recipe of Matthews' thesis, 5.5.

Steps 0 .. start_steps - 1 fit q(u) = N(m, R R^T), the hyperparameters and Z; then each step is one trajectory
of every chain. A chain moves w, v = m + R w (`precondition`; otherwise v itself), and log theta; it starts at
a draw of q(u), that is w ~ N(0, I). In burn-in the step size follows dual averaging (Hoffman and Gelman
2014), the same for all chains; after it the averaged one stays, and every `thinning`-th state is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from dgpbench.inference.base import Batch, Bound, Oracle, Update
from dgpbench.inference.mixing import mixing
from dgpbench.inference.updates.adam import all_there
from dgpbench.inference.updates.natural import NaturalAdam

V, ROOT = "layer0/q_mu", "layer0/q_sqrt"
PULL, STABLE, FORGET = 0.05, 10.0, 0.75  # gamma, t0 and kappa of dual averaging
REACH = 7.0  # log theta stays so near its start: beyond a factor of 1100 kernels have no Cholesky factor
COUNTED = ("accepted", "divergent", "leapfrogs", "trajectories")
DIVERGENT = -1000.0  # log acceptance ratio below which a trajectory has left the energy surface


@dataclass(frozen=True)
class Chains(Update):
    fit: Bound
    start: NaturalAdam
    start_steps: int
    held: tuple[str, ...]  # parameters that the fit leaves where they are
    sampled: tuple[str, ...]  # parameters that a chain moves, v first; those that are fixed stay
    sampler: str
    leapfrog: int
    depth: int
    adapt: bool
    precondition: bool
    chains: int
    burn_in: int
    thinning: int
    kept: int  # of each chain
    rates = (*NaturalAdam.rates, "step", "accept")
    needs_all_rows = "inference=sgpmc"

    def slots(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        out = self.start.slots(shapes)
        for name in self._names(shapes):
            out[f"chain/{name}"] = (self.chains, *shapes[name])
            out[f"kept/{name}"] = (self.chains, self.kept, *shapes[name])
        return out | dict.fromkeys(("step_size", "log_mean", "error", *COUNTED), ())

    def _names(self, trainable) -> list[str]:
        return [name for name in self.sampled if name in trainable]

    def step(self, oracle: Oracle, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.cond(
            batch.step < self.start_steps,
            lambda: self._fit(oracle.of(self.fit), batch),
            lambda: (self._sample(oracle, batch), tf.constant(0)),
        )

    def _fit(self, oracle, batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
        oracle.trainable = [name for name in oracle.trainable if name not in self.held]
        value, refused = self.start.step(oracle, batch)
        return value, tf.convert_to_tensor(refused)

    # ---- one trajectory of each chain ----------------------------------------------------------------

    def _sample(self, oracle: Oracle, batch: Batch) -> tf.Tensor:
        names, first = self._names(oracle.trainable), batch.step == self.start_steps
        centre = {name: oracle.raw[name].read_value() for name in (*names, ROOT)}
        old = tf.cond(
            first,
            lambda: {name: self._begin(oracle, batch, name, centre) for name in names},
            lambda: {name: oracle.slots[f"chain/{name}"].read_value() for name in names},
        )
        step_size = tf.where(
            first, tf.cast(oracle.rates["step"], centre[V].dtype), oracle.slots["step_size"].read_value()
        )

        def trajectory(oracle: Oracle, batch: Batch, centre, step_size, state, key):
            target = self._target(oracle, batch, names, centre)
            return self._trajectory(target, names, step_size, state, key)

        move = oracle.fused(trajectory)
        each = []
        for c in range(self.chains):
            own = {name: state[c] for name, state in old.items()}
            each.append(move(batch._replace(rows=None), centre, step_size, own, oracle.key(batch, 1 + c)))
        moved, values, ratio, leapfrogs = tf.nest.map_structure(lambda *parts: tf.stack(parts), *each)
        chance = tf.exp(tf.minimum(ratio, 0.0))
        counts = (chance, tf.cast(ratio < DIVERGENT, chance.dtype), leapfrogs, tf.ones_like(chance))
        state = self._tuned(oracle, batch, step_size, tf.reduce_mean(chance))
        state |= {f"chain/{name}": value for name, value in moved.items()}
        value, state, counts = all_there((tf.reduce_mean(values), state, counts))
        for name, new in state.items():
            oracle.slots[name].assign(new)
        self._keep(oracle, batch, names, centre, moved, dict(zip(COUNTED, counts, strict=True)))
        return value

    def _begin(self, oracle: Oracle, batch: Batch, name: str, centre) -> tf.Tensor:
        """First states of one parameter in all chains: v ~ q(u), theta as the fit has left it."""
        at, shape = centre[name], oracle.slots[f"chain/{name}"].shape
        if name != V:
            return tf.broadcast_to(at, shape)
        w = tf.random.stateless_normal(shape, oracle.key(batch, 0), dtype=at.dtype, alg="philox")
        return w if self.precondition else self._outputs(centre, w)

    def _outputs(self, centre, w: tf.Tensor) -> tf.Tensor:
        """v = m + R w (..., P, M)."""
        R = tf.linalg.band_part(centre[ROOT], -1, 0)
        return centre[V] + tf.linalg.matvec(R, w)

    def _target(self, oracle: Oracle, batch: Batch, names: list[str], centre):
        """The log density of a chain's state, whose gradient is the oracle's."""

        def target(*parts: tf.Tensor) -> tf.Tensor:
            held = {name: tf.stop_gradient(part) for name, part in zip(names, parts, strict=True)}
            inside = tf.constant(True)
            for name in names[1:]:
                near = tf.abs(held[name] - centre[name]) < REACH  # false where it is not a number
                inside = inside & tf.reduce_all(near)
                held[name] = tf.where(near, held[name], centre[name])
            if self.precondition:
                held[V] = self._outputs(centre, held[V])
            value, gradients, _ = oracle(batch, names, replaced=held)
            if self.precondition:
                R = tf.linalg.band_part(centre[ROOT], -1, 0)
                gradients[V] = tf.linalg.matvec(R, gradients[V], transpose_a=True)
            value = tf.stop_gradient(tf.where(inside, value, tf.constant(-np.inf, value.dtype)))
            slopes = [  # zero in value, the oracle's in gradient
                tf.reduce_sum(tf.stop_gradient(gradients[name]) * (part - tf.stop_gradient(part)))
                for name, part in zip(names, parts, strict=True)
            ]
            return value + sum(slopes[1:], slopes[0])

        return target

    def _trajectory(self, target, names: list[str], step_size, old, key):
        """A chain's next state, its log density, the log acceptance ratio, and the gradients it took."""
        import tensorflow_probability as tfp

        if self.sampler == "nuts":
            kernel = tfp.mcmc.NoUTurnSampler(target, step_size, max_tree_depth=self.depth)
        else:
            kernel = tfp.mcmc.HamiltonianMonteCarlo(target, step_size, self.leapfrog)
        parts = [old[name] for name in names]
        moved, results = kernel.one_step(parts, kernel.bootstrap_results(parts), seed=key)
        ratio = results.log_accept_ratio
        if self.sampler == "nuts":
            value, leapfrogs = results.target_log_prob, tf.cast(results.leapfrogs_taken, ratio.dtype)
        else:
            value = results.accepted_results.target_log_prob
            leapfrogs = tf.constant(float(self.leapfrog), ratio.dtype)
        return dict(zip(names, moved, strict=True)), value, ratio, leapfrogs

    def _tuned(self, oracle: Oracle, batch: Batch, step_size, chance) -> dict[str, tf.Tensor]:
        """Step size and its averages after a trajectory with that acceptance."""
        if not self.adapt:
            return {"step_size": step_size}
        dtype = step_size.dtype
        t = tf.cast(batch.step - self.start_steps + 1, dtype)
        wanted, begin = (tf.cast(oracle.rates[name], dtype) for name in ("accept", "step"))
        error, mean = (oracle.slots[name].read_value() for name in ("error", "log_mean"))
        error = (1.0 - 1.0 / (t + STABLE)) * error + (wanted - chance) / (t + STABLE)
        log_step = tf.math.log(10.0 * begin) - tf.sqrt(t) / PULL * error
        share = t**-FORGET
        mean = share * log_step + (1.0 - share) * mean
        last = t >= self.burn_in
        after = {"error": error, "log_mean": mean, "step_size": tf.exp(tf.where(last, mean, log_step))}
        frozen = t > self.burn_in
        held = {name: oracle.slots[name].read_value() for name in after}
        return {name: tf.where(frozen, held[name], value) for name, value in after.items()}

    def _keep(self, oracle: Oracle, batch: Batch, names, centre, moved, counts) -> None:
        """Put every `thinning`-th state into its place among those kept, and count, behind burn-in."""
        since = batch.step - self.start_steps - self.burn_in + 1

        def write() -> tf.Tensor:
            place = (since // self.thinning - 1) % self.kept
            where = tf.stack([tf.range(self.chains), tf.fill((self.chains,), place)], 1)
            for name in names:
                value = moved[name]
                if name == V and self.precondition:
                    value = self._outputs(centre, value)
                oracle.slots[f"kept/{name}"].scatter_nd_update(where, value)
            return tf.constant(True)

        def count() -> tf.Tensor:
            for name, values in counts.items():
                oracle.slots[name].assign_add(tf.reduce_sum(values))
            return tf.cond(since % self.thinning == 0, write, lambda: tf.constant(False))

        tf.cond(since > 0, count, lambda: tf.constant(False))

    # ---- what is kept --------------------------------------------------------------------------------

    def _count(self, steps: int) -> int:
        return min(self.kept, max(0, steps - self.start_steps - self.burn_in) // self.thinning)

    def incomplete(self, steps: int) -> str | None:
        if self._count(steps):
            return None
        least = self.start_steps + self.burn_in + self.thinning
        return (
            f"training ended at step {steps}, before the first sample at {least}; raise budget.seconds or "
            "shorten inference.burn_in"
        )

    def _chains(self, slots: Mapping[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
        """Kept states (chains, draws, *shape) in the order of their steps."""
        count = self._count(steps)
        done = max(0, steps - self.start_steps - self.burn_in) // self.thinning
        turn = done % self.kept if done > self.kept else 0
        names = [name for name in self.sampled if f"kept/{name}" in slots]
        return {name: np.roll(slots[f"kept/{name}"][:, :count], -turn, 1) for name in names}

    def draws(self, slots: Mapping[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
        if not self._count(steps):
            return {}
        return {n: v.reshape(-1, *v.shape[2:]) for n, v in self._chains(slots, steps).items()}

    def facts(self, slots: Mapping[str, np.ndarray], steps: int) -> dict[str, dict[str, float]]:
        """How the chains mix, and what a trajectory was like."""
        total = float(slots["trajectories"])
        mean = {name: float(slots[name]) / total for name in ("accepted", "leapfrogs")}
        own = {"step": float(slots["step_size"]), "divergent": float(slots["divergent"])}
        return {"chains": mixing(self._chains(slots, steps)) | mean | own}
