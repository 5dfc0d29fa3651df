"""Stochastic gradient Hamiltonian Monte Carlo over the whitened inducing outputs (thesis ch. 6).

The state is v ~ N(0, I) of each layer, u = L v; a layer is its prior conditional given u. Potential
    U(v) = -sum_l log N(v_l; 0, I) - (N / B) sum_n ell_n,
with ell_n = E log p(y_n | f_n) over the conditional of the last layer (`expected`, as the thesis writes), or
log E p(y_n | f_n) (`marginal`, as its released code computes). Steps: `AdaptiveSGHMC`.


Steps of SGHMC with a preconditioner that adapts in burn-in, and Adam on the hyperparameters meanwhile.

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
from typing import TYPE_CHECKING, Any

from dgpbench.config.derived import every
from dgpbench.config.schema import COUNT, COUNT_OR_NULL, POSITIVE, Field
from dgpbench.errors import UserError
from dgpbench.gp.lazy import lazy
from dgpbench.inference.adam_method import (
    ADAM_FIELDS,
    ADAM_RATES,
    AdamMethod,
    correlated_outputs,
    gp_layers_only,
)
from dgpbench.inference.base import Batch, Bound, Numerics, Oracle, Update

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from dgpbench.gp import propagation
    from dgpbench.gp.deep_gp import DeepGP
    from dgpbench.inference import mixing
    from dgpbench.inference.updates import adam
else:
    np, tf, propagation = lazy("numpy"), lazy("tensorflow"), lazy("dgpbench.gp.propagation")
    mixing, adam = lazy("dgpbench.inference.mixing"), lazy("dgpbench.inference.updates.adam")

BURN_IN, THINNING = 2500, 25  # steps, where the budget has room for both


@dataclass(frozen=True)
class LogJoint(Bound):
    """log p(y, v), up to a constant: q(u) is a point."""

    marginal: bool = False
    chains: int = 1

    @property
    def evaluations(self) -> int:  # type: ignore[override]  # one of each chain, and that of the hyperparameters
        return 1 + self.chains

    def initial(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The mean-field start without its covariances: v = 0, where the mean functions are the model."""
        return {name: v for name, v in values.items() if not name.endswith("/q_sqrt")}

    def posterior(self, values, numerics: Numerics) -> Mapping[int, Any]:
        return {i: propagation.Whitened(values[f"layer{i}/q_mu"]) for i in self.model.gps}

    def terms(self, prepared, X, Y, noise, start) -> tf.Tensor:
        model = self.model
        Xs, Ys = tf.tile(X, (1, self.samples)), tf.tile(Y, (1, self.samples))
        mean, var = self.moments(prepared, Xs, noise)
        p, own = prepared["likelihood"], noise[model.likelihood_rows]
        if self.marginal:
            return model.likelihood.log_power(p, mean, var, Ys, 1.0, own)
        return model.likelihood.variational_expectations(p, mean, var, Ys, own)

    def penalty(self, values, prepared, numerics: Numerics) -> dict[int, tf.Tensor]:
        """-log N(v; 0, I) of each layer, without its constant."""
        return {i: 0.5 * tf.reduce_sum(tf.square(values[f"layer{i}/q_mu"])) for i in self.model.gps}


class SGHMC(AdamMethod):
    fields = {
        "potential": Field(str, choices=("expected", "marginal")),
        "step": POSITIVE,
        "friction": Field(float, above=0, below=1),
        "burn_in": COUNT_OR_NULL,
        "thinning": COUNT_OR_NULL,
        "kept": COUNT,
        "size_mb": POSITIVE,
        "chains": COUNT,
        "window": COUNT,
        "compat": Field(str, choices=("none", "released")),
        **ADAM_FIELDS,
    }

    def scaled(self, steps: int | None) -> dict[str, Any]:
        """Return burn-in and thinning: 2,500 and 25 steps, or in a budget without room for both half of the
        steps and what keeps `inference.kept` of the rest."""
        burn_in, thinning = self.settings["burn_in"], self.settings["thinning"]
        if steps is None or steps >= (burn_in or BURN_IN) + (thinning or THINNING):
            return {"burn_in": burn_in or BURN_IN, "thinning": thinning or THINNING}
        burn_in = burn_in or max(1, steps // 2)
        fitting = (steps - burn_in) // self.settings["kept"]
        return {"burn_in": burn_in, "thinning": thinning or min(THINNING, max(1, fitting))}

    def schedule(self) -> str:
        burn_in, thinning = self.settings["burn_in"], self.settings["thinning"]
        return f"{burn_in:,} steps of burn-in, then a sample {every(thinning)}"

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        own = self.settings["name"]
        if reason := gp_layers_only(own, model, separate=True) or correlated_outputs(
            own, model, "output_gps"
        ):
            return reason
        if likelihood == "softmax" and self.settings["potential"] == "marginal":
            return (
                "likelihood=softmax has no integral in closed form for inference.potential=marginal; use "
                "inference.potential=expected or likelihood=robustmax"
            )
        if self.cfg["budget"].get("stop", "none") != "none":
            return "inference=sghmc samples for as long as its budget says; set budget.stop=none"
        burn_in, thinning = self.settings["burn_in"], self.settings["thinning"]
        steps = self.cfg["budget"]["steps"]
        if steps is None:
            return (
                "inference=sghmc counts its burn-in in steps; set budget.steps, alone or with budget.seconds"
            )
        if steps < burn_in + thinning:
            return (
                f"budget.steps={steps} leaves no sample behind inference.burn_in={burn_in} at "
                f"inference.thinning={thinning}; set budget.steps to at least {burn_in + thinning}, or a "
                "shorter burn-in"
            )
        return None

    def bound(self, model: DeepGP) -> LogJoint:
        settings = self.settings
        return LogJoint(model, settings["samples"], settings["potential"] == "marginal", settings["chains"])

    def update(self, bound: Bound) -> Update:
        model, settings = bound.model, self.settings
        kept, note = self._that_fit(
            sum(model.layers[i].num_inducing * model.layers[i].output_dim for i in model.gps)
        )
        names = tuple(f"layer{i}/q_mu" for i in model.gps)
        numbers = {name: settings[name] for name in ("burn_in", "thinning", "window", "chains")}
        return AdaptiveSGHMC(
            names, kept=kept, released=settings["compat"] == "released", reduced=note, **numbers
        )

    def _that_fit(self, size: int) -> tuple[int, str]:
        """Samples of each chain, of so many numbers each, that inference.size_mb allows, and a note if those
        are fewer than inference.kept; UserError where not one is."""
        wanted, chains, limit = (self.settings[name] for name in ("kept", "chains", "size_mb"))
        each = 8e-6 * size * chains
        if each > limit:
            raise UserError(
                f"one sample of each chain takes {each:.3g} MB, more than inference.size_mb={limit:g}; raise "
                "it, or lower model.num_inducing"
            )
        if (kept := min(wanted, int(limit / each))) == wanted:
            return kept, ""
        return kept, (
            f"{wanted} samples would take {wanted * each:.3g} MB of the parameters file: the last {kept} are "
            f"kept, as inference.size_mb={limit:g} allows"
        )

    def rates(self) -> dict[str, float]:
        return super().rates() | {name: float(self.settings[name]) for name in ("step", "friction")}


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
        out = adam.adam_slots({name: shapes[name] for name in adam.without(list(shapes), self.names)})
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
        value, moved = adam.all_there((values[0], moved))
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
        others = adam.without(oracle.trainable, self.names)
        if not others:
            return tf.group(*writes) or tf.constant(True)
        with tf.control_dependencies(writes):
            filled = tf.minimum(place + self.chains, self.window)
            key = oracle.key(batch, len(self.names))
            pick = tf.random.stateless_uniform((), key, 0, filled, tf.int32, alg="philox")
            held = {name: tf.gather(oracle.slots[f"window/{name}"], pick) for name in self.names}
            _, gradients, _ = oracle(batch, others, draw=1, replaced=held)
        adam.adam_step(oracle, adam.all_there(gradients), batch.step)
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
        return {"chains": mixing.mixing(self.in_order(slots, steps))}


def _slot(slot: str, chain: int, name: str) -> str:
    """Name of a slot; the first chain has the plain one."""
    return f"{slot}{chain}/{name}" if chain else f"{slot}/{name}"
