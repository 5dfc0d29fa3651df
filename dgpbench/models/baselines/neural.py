"""Neural baselines, trained by the engine: mixture density network, deep ensemble, dropout.

MDN           (Bishop, 1994; MDN-k of thesis table 4.1) weights, means and variances of Gaussians at x
DeepEnsemble  (Lakshminarayanan et al., 2017) networks that differ in their start, as a mixture. Members
              share the minibatches only: Adam moves each parameter by its own gradient, so that training
              all members together equals training them one by one
MCDropout     (Gal and Ghahramani, 2016) y = f(x, masks) + noise of constant variance. Each hidden unit is
              set to 0 with probability `rate`, independently for each row and sample. The other units
              are divided by 1 - rate. Training maximises log p(y | x, masks) - decay / 2 |W|^2 per row,
              averaged over masks; predictions average over masks

"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from dgpbench.config.schema import COUNT, POSITIVE, Field
from dgpbench.config.sections import hidden_sizes, option
from dgpbench.engine.batches import Batches
from dgpbench.engine.context import RunContext, TrainResult
from dgpbench.engine.loop import train
from dgpbench.engine.platform import choose_device, set_threads, tf
from dgpbench.engine.spec import StepSpec
from dgpbench.engine.trainer import get_trainer
from dgpbench.evaluate.predictive import Predictive
from dgpbench.gp import networks
from dgpbench.gp.parameters import NOISE, Constraint, scope, unconstrain
from dgpbench.inference.adam_method import adam_rates
from dgpbench.inference.base import Whole
from dgpbench.inference.updates.adam import Adam

LOG_2PI = math.log(2.0 * math.pi)
PREDICT_COLUMNS = 100_000  # points times samples that pass through a network at once


@dataclass(frozen=True)
class Network(Whole):
    """A density model of y given x: its structure, hashable, and its bound, one term for each column of
    X (D, B), Y (P, B), noise (noise_dim, B): log p(y | x) or a bound on it."""

    dim: int = 1
    outputs: int = 1
    noise_dim: ClassVar[int] = 0  # standard normals per point and sample of the bound

    @property
    def input_dim(self) -> int:
        return self.dim

    @property
    def target_dim(self) -> int:
        return self.outputs

    def describe(self) -> str:
        """The widths in one line."""
        raise NotImplementedError

    def initial(self, rng: np.random.RandomState) -> dict[str, np.ndarray]:
        """Constrained parameters to start from."""
        raise NotImplementedError


class NeuralModel(ABC):
    """A network trained by Adam on a bound; a subclass has `network` and `predict`."""

    tasks = ("regression",)
    fixed: tuple[str, ...] = ()  # parameters that are not trained

    def __init__(self, cfg: dict):
        self.cfg = cfg
        self.threads = set_threads(cfg["threads"])
        self.device = choose_device(cfg["device"])
        self.values: dict[str, np.ndarray] = {}

    @abstractmethod
    def network(self, dim: int, outputs: int) -> Network:
        """The structure for data with so many inputs and outputs."""

    def start(self, split, seed: int) -> str:
        """One line about the network for the user."""
        network = self.network(split.dim, split.outputs)
        count = sum(v.size for v in network.initial(np.random.RandomState(seed)).values())
        return f"{network.describe()}, {count:,} parameters"

    def fit(self, split, run: RunContext) -> TrainResult:
        cfg, inference = self.cfg, self.cfg["inference"]
        network = replace(self.network(split.dim, split.outputs), samples=inference["samples"])
        batches = Batches(split.n_train, inference["batch"], run.seed)
        resident = 8 * split.n_train * (split.dim + split.outputs) <= cfg["engine"]["memory_limit_gb"] * 1e9
        raw = unconstrain(network.initial(np.random.RandomState(run.seed)), network.constraints())
        trainer = get_trainer(
            StepSpec(
                bound=network,
                update=Adam(),
                shapes=tuple((name, v.shape) for name, v in raw.items()),
                fixed=frozenset(self.fixed),
                batch=batches.batch,
                full_batch=batches.full and resident,
                precision=cfg["precision"],
                xla=cfg["engine"]["xla"] in ("auto", True),
                device=self.device,
            )
        )
        trainer.reset(
            raw,
            adam_rates(inference["adam"]),
            seed=run.seed,
            num_data=split.n_train,
            data=(split.X_train, split.Y_train) if resident else None,
        )
        result = train(trainer, batches, run, take=None if resident else split.take_train)
        self.load_parameters(trainer.values())
        return result

    def parameters(self) -> dict[str, np.ndarray]:
        return self.values

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        self.values = {name: np.asarray(v, np.float64) for name, v in values.items()}

    def mixture_of_draws(
        self, X: np.ndarray, samples: int, seed: int, rows: int, noise_dim: int, mean_of: Callable
    ) -> Predictive:
        """Return an equally weighted mixture over `samples` draws of the noise, independent for each point.

        `mean_of(x, noise)` gives the mean of y (P, C) at columns x (D, C) for noise (noise_dim, C). `rows`
        points pass through the network at once.
        """
        means = []
        for block, start in enumerate(range(0, len(X), rows)):
            part = X[start : start + rows]
            shape = (noise_dim, samples * len(part))
            noise = tf.random.stateless_normal(shape, (seed, block), dtype=tf.float32, alg="philox")
            F = mean_of(tf.tile(tf.transpose(part), (1, samples)), tf.cast(noise, tf.float64))
            means.append(F.numpy().reshape(-1, samples, len(part)).transpose(1, 2, 0))  # S, N, P
        mean = np.concatenate(means, 1)
        return Predictive(mean=mean, var=np.full(mean.shape, self.values["likelihood/variance"]))

    def tensors(self) -> dict[str, tf.Tensor]:
        return {name: tf.constant(v) for name, v in self.values.items()}


@dataclass(frozen=True)
class MixtureDensityNetwork(Network):
    """x -> k logits, k P means and k P variances; outputs are independent given the component."""

    components: int = 5
    hidden: tuple[int, ...] = ()

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.dim, *self.hidden, self.components * (1 + 2 * self.outputs))

    def describe(self) -> str:
        return f"{' -> '.join(map(str, self.sizes))}, {self.components} components"

    def initial(self, rng: np.random.RandomState) -> dict[str, np.ndarray]:
        """Xavier start; the biases of several components' means are spread as standardised targets are."""
        values = networks.initial(self.sizes, rng)
        if self.components > 1:
            k, P = self.components, self.outputs
            values[f"b{len(self.hidden)}"][k : k + k * P] = rng.randn(k * P, 1)
        return {f"network/{name}": value for name, value in values.items()}

    def mixture(self, p: dict[str, tf.Tensor], X: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Log weights (k, B), means and variances (k, P, B); a softplus and a floor keep these positive."""
        k, P = self.components, self.outputs
        out = networks.forward(scope(p, "network"), X)
        shape = (k, P, tf.shape(X)[1])
        mean, raw = tf.reshape(out[k : k + k * P], shape), tf.reshape(out[k + k * P :], shape)
        return tf.nn.log_softmax(out[:k], axis=0), mean, tf.math.softplus(raw) + NOISE.floor

    def terms(self, p: dict[str, tf.Tensor], X, Y, noise) -> tf.Tensor:
        """log p(y | x) itself, exact (B,)."""
        log_weights, mean, var = self.mixture(p, X)
        logp = -0.5 * tf.reduce_sum(LOG_2PI + tf.math.log(var) + (Y - mean) ** 2 / var, 1)  # k, B
        return tf.reduce_logsumexp(log_weights + logp, 0)


class MDN(NeuralModel):
    """Trained by maximum likelihood."""

    def __init__(self, cfg: dict):
        self.components = option(cfg, "components", COUNT)
        self.hidden = hidden_sizes(cfg)
        super().__init__(cfg)

    def network(self, dim: int, outputs: int) -> MixtureDensityNetwork:
        return MixtureDensityNetwork(dim=dim, outputs=outputs, components=self.components, hidden=self.hidden)

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        """The mixture as it is: nothing is sampled."""
        p = self.tensors()
        outputs = (p[f"network/b{len(self.hidden)}"].shape[0] // self.components - 1) // 2
        network = self.network(X.shape[1], outputs)
        rows = max(1, PREDICT_COLUMNS // self.components)
        parts = [network.mixture(p, tf.transpose(X[i : i + rows])) for i in range(0, len(X), rows)]
        log_weights, mean, var = (np.concatenate(arrays, -1) for arrays in zip(*parts, strict=True))
        mean, var = mean.transpose(0, 2, 1), var.transpose(0, 2, 1)  # k, N, P
        return Predictive(mean=mean, var=var, log_weights=log_weights)


@dataclass(frozen=True)
class Ensemble(Network):
    """Members with one Gaussian each; the bound is the mean of their log-likelihoods."""

    members: int = 5
    hidden: tuple[int, ...] = ()

    @property
    def member(self) -> MixtureDensityNetwork:
        return MixtureDensityNetwork(dim=self.dim, outputs=self.outputs, components=1, hidden=self.hidden)

    def describe(self) -> str:
        widths = " -> ".join(map(str, (self.dim, *self.hidden, 2 * self.outputs)))
        return f"{self.members} networks {widths}"

    def initial(self, rng: np.random.RandomState) -> dict[str, np.ndarray]:
        starts = [self.member.initial(rng) for _ in range(self.members)]
        return {f"member{i}/{name}": value for i, start in enumerate(starts) for name, value in start.items()}

    def moments(self, p: dict[str, tf.Tensor], X: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Means and variances (members, P, B)."""
        found = [self.member.mixture(scope(p, f"member{i}"), X) for i in range(self.members)]
        return tf.concat([mean for _, mean, _ in found], 0), tf.concat([var for _, _, var in found], 0)

    def terms(self, p: dict[str, tf.Tensor], X, Y, noise) -> tf.Tensor:
        """Mean over members of log p(y | x) (B,)."""
        each = [self.member.terms(scope(p, f"member{i}"), X, Y, noise) for i in range(self.members)]
        return tf.add_n(each) / self.members


class DeepEnsemble(NeuralModel):
    """An equally weighted mixture of the members' Gaussians."""

    def __init__(self, cfg: dict):
        self.members = option(cfg, "members", COUNT)
        self.hidden = hidden_sizes(cfg)
        super().__init__(cfg)

    def network(self, dim: int, outputs: int) -> Ensemble:
        return Ensemble(dim=dim, outputs=outputs, members=self.members, hidden=self.hidden)

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        """The mixture as it is: nothing is sampled."""
        p = self.tensors()
        outputs = (p[f"member0/network/b{len(self.hidden)}"].shape[0] - 1) // 2
        network, rows = self.network(X.shape[1], outputs), max(1, PREDICT_COLUMNS // self.members)
        parts = [network.moments(p, tf.transpose(X[i : i + rows])) for i in range(0, len(X), rows)]
        mean, var = (np.concatenate(arrays, -1).transpose(0, 2, 1) for arrays in zip(*parts, strict=True))
        return Predictive(mean=mean, var=var, log_weights=np.full(mean.shape[:2], -math.log(self.members)))


@dataclass(frozen=True)
class DropoutNetwork(Network):
    """x -> mean of y, tanh layers with masks between them."""

    hidden: tuple[int, ...] = (50,)
    rate: float = 0.1
    decay: float = 1e-4
    variance: float = 0.05  # of the noise, to start from

    @property
    def noise_dim(self) -> int:
        return sum(self.hidden)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.dim, *self.hidden, self.outputs)

    def describe(self) -> str:
        return f"{' -> '.join(map(str, self.sizes))}, dropout {self.rate:g}"

    def initial(self, rng: np.random.RandomState) -> dict[str, np.ndarray]:
        values = {f"network/{name}": value for name, value in networks.initial(self.sizes, rng).items()}
        return values | {"likelihood/variance": np.asarray(self.variance)}

    def constraints(self) -> dict[str, Constraint]:
        return {"likelihood/variance": NOISE}

    def mean(self, p: dict[str, tf.Tensor], X: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """The mean of y (P, B) under the masks that standard normals (noise_dim, B) make: a unit is dropped
        where its normal lies below the quantile of the rate."""
        weights, H, first = scope(p, "network"), X, 0
        for i, width in enumerate(self.hidden):
            H = tf.tanh(tf.matmul(weights[f"W{i}"], H) + weights[f"b{i}"])
            kept = noise[first : first + width] > ndtri(self.rate)
            H = tf.where(kept, H / (1.0 - self.rate), tf.zeros_like(H))
            first += width
        last = len(self.hidden)
        return tf.matmul(weights[f"W{last}"], H) + weights[f"b{last}"]

    def terms(self, p: dict[str, tf.Tensor], X, Y, noise) -> tf.Tensor:
        """Return log p(y | x, masks) - decay / 2 |W|^2 of each column (B,), with one draw of the masks."""
        variance = p["likelihood/variance"]
        residual = Y - self.mean(p, X, noise)
        loglik = -0.5 * tf.reduce_sum(LOG_2PI + tf.math.log(variance) + residual**2 / variance, 0)
        squares = [tf.reduce_sum(p[f"network/W{i}"] ** 2) for i in range(len(self.hidden) + 1)]
        return loglik - 0.5 * self.decay * tf.add_n(squares)


class MCDropout(NeuralModel):
    """Predictions are mixtures over masks."""

    def __init__(self, cfg: dict):
        self.hidden = hidden_sizes(cfg)
        self.rate = option(cfg, "rate", Field(float, above=0, below=1))
        self.decay = option(cfg, "decay", Field(float, low=0))
        self.variance = option(cfg, "likelihood_variance", POSITIVE)
        super().__init__(cfg)

    def network(self, dim: int, outputs: int) -> DropoutNetwork:
        settings = {"rate": self.rate, "decay": self.decay, "variance": self.variance}
        return DropoutNetwork(dim=dim, outputs=outputs, hidden=self.hidden, **settings)

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        p = self.tensors()
        network = self.network(X.shape[1], p[f"network/b{len(self.hidden)}"].shape[0])
        rows = max(1, PREDICT_COLUMNS // (samples * max(1, network.noise_dim // 50)))
        return self.mixture_of_draws(X, samples, seed, rows, network.noise_dim, partial(network.mean, p))
