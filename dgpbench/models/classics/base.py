"""What the classical GPs share: start, the memory they need, training, prediction, parameters."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from dgpbench.config.kernel_names import KernelError
from dgpbench.config.schema import Field
from dgpbench.config.sections import option
from dgpbench.engine.context import RunContext
from dgpbench.engine.platform import choose_device, set_threads, tf  # before GPflow starts TensorFlow
from dgpbench.errors import UserError
from dgpbench.evaluate.predictive import Predictive, pooled
from dgpbench.gp import kernels, likelihoods
from dgpbench.gp.kernels.base import Kernel
from dgpbench.gp.kernels.in_gpflow import to_gpflow, values_of
from dgpbench.gp.likelihoods import in_gpflow
from dgpbench.gp.parameters import below, scope
from dgpbench.models.classics.lbfgs import maximise

FROZEN = Field(int, low=0)
BLOCK = 2**24  # covariances of test and training rows, at a time


class Classic(ABC):
    """A GPflow model, with the zero mean function, over all training rows, in float64.

    Parameters are named as everywhere in this package, with the training rows X, Y beside them.
    """

    tasks: tuple[str, ...] = ("regression",)
    evidence_kind: ClassVar[str]  # what stands under `evidence` in the record
    instead: ClassVar[str] = "model=sgp or gp (the IWVI paper's), for any number of rows, or sgpr"

    def __init__(self, cfg: dict):
        self.cfg, self.settings, self.name = cfg, cfg["model"], cfg["model"]["name"]
        self.frozen_steps = option(cfg, "frozen_steps", FROZEN) if "frozen_steps" in self.settings else 0
        self.threads = set_threads(cfg["threads"])
        self.device = choose_device(cfg["device"])
        self.values: dict[str, np.ndarray] = {}
        self.model: Any = None

    # ---- what a subclass says ------------------------------------------------------------------------

    @abstractmethod
    def numbers(self, rows: int, gps: int) -> float:
        """The most float64 numbers that training holds at once."""

    @abstractmethod
    def build(self, kernel: Any, likelihood: Any, values: dict[str, np.ndarray]) -> Any:
        """GPflow's model with these values."""

    def own_initial(self, X: np.ndarray, gps: int, seed: int) -> dict[str, np.ndarray]:
        """First values of parameters beside those of kernel and likelihood."""
        return {}

    def own_values(self) -> dict[str, np.ndarray]:
        """The same of `model` as it is."""
        return {}

    # ---- what a run asks -----------------------------------------------------------------------------

    def start(self, split, seed: int) -> str:
        """Refuse what does not fit; one line about the model for the user."""
        likelihood = likelihoods.choose(self.cfg, split)
        gps, limit = likelihood.gps(split.outputs), self.cfg["engine"]["memory_limit_gb"]
        if (needed := 8e-9 * self.numbers(split.n_train, gps)) > limit:
            most = bisect_right(range(split.n_train), limit, key=lambda n: 8e-9 * self.numbers(n, gps)) - 1
            raise UserError(
                f"model={self.name} on {split.n_train:,} training rows needs about {needed:,.1f} GB; "
                f"{most:,} rows fit in engine.memory_limit_gb={limit:g}: raise it, or use {self.instead}"
            )
        kernel = self._kernel(split.dim)
        to_gpflow(kernel, kernel.initial(1.0, 1.0, 1.0))  # refuses what GPflow lacks
        in_gpflow(likelihood, likelihood.initial())  # likewise
        return f"{self.evidence_kind}, {likelihood.name}, kernel {kernel}"

    def fit(self, split, run: RunContext) -> dict[str, Any]:
        self.start(split, run.seed)
        values = self.first_values(split, run.seed)
        self.load_parameters(values)
        with tf.device(self.device):
            result = maximise(self.model, run, self.frozen_steps)
        self.load_parameters(values | self.trained_values() | self.own_values())
        return {"evidence_kind": self.evidence_kind} | result

    def first_values(self, split, seed: int) -> dict[str, np.ndarray]:
        """All parameters before training, the training rows X, Y among them."""
        s, X, Y = self.settings, split.X_train, split.Y_train
        likelihood = likelihoods.choose(self.cfg, split)
        scale = math.sqrt(split.dim) if s["lengthscale"] == "sqrt_dim" else s["lengthscale"]
        initial = self._kernel(split.dim).initial(s["kernel_variance"], scale, s["likelihood_variance"])
        values = {"X": X, "Y": Y} | below("kernel", initial) | below("likelihood", likelihood.initial())
        return values | self.own_initial(X, likelihood.gps(split.outputs), seed)

    def trained_values(self) -> dict[str, np.ndarray]:
        """Parameters of kernel and likelihood of `model` as they are."""
        names = self.likelihood.positive
        noise = {name: getattr(self.model.likelihood, name).numpy() for name in names}
        kernel = values_of(self._kernel(self.values["X"].shape[1]), self.model.kernel)
        return below("kernel", kernel) | below("likelihood", noise)

    # ---- prediction as the likelihood asks -----------------------------------------------------------

    @property
    def likelihood(self) -> likelihoods.Likelihood:
        return likelihoods.of_size(self.cfg, self.gps(), scope(self.values, "likelihood"))

    @property
    def discrete(self) -> bool:
        """Whether y takes separate values."""
        return bool(self.values) and self.likelihood.discrete

    num_members = 1

    def members(self) -> Iterable[tuple[Any, dict[str, np.ndarray]]]:
        """Models, each with its likelihood's parameters, over which predictions are averaged."""
        return [(self.model, scope(self.values, "likelihood"))]

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        share = -(-samples // self.num_members)
        each = [self._predict(*member, X, share, (seed, 1 + i)) for i, member in enumerate(self.members())]
        return each[0] if len(each) == 1 else pooled(each)

    def _predict(self, model: Any, p: dict[str, np.ndarray], X: np.ndarray, samples: int, seed) -> Predictive:
        likelihood, (mean, var) = self.likelihood, self.moments(X, model)
        if isinstance(likelihood, likelihoods.Gaussian):
            return Predictive(mean=mean[None], var=var[None] + p["variance"])
        if hasattr(likelihood, "probs"):
            return Predictive(probs=likelihood.probs(p, tf.constant(mean.T), tf.constant(var.T)).numpy().T)
        rng = np.random.default_rng(seed)
        F = mean + np.sqrt(np.maximum(var, 0.0)) * rng.standard_normal((samples, *mean.shape))
        return Predictive(draws=likelihood.draw(p, F, rng))

    def log_density(self, X: np.ndarray, Y: np.ndarray, samples: int, seed: int) -> np.ndarray | None:
        """log p(y | x) (members, N) by quadrature; None where `predict` has it."""
        if isinstance(self.likelihood, likelihoods.Gaussian) or hasattr(self.likelihood, "probs"):
            return None
        out = []
        for model, own in self.members():
            mean, var, y = (tf.constant(a.T) for a in (*self.moments(X, model), Y))
            p = {name: tf.constant(v) for name, v in own.items()}
            out.append(self.likelihood.log_density(p, mean, var, y).numpy())
        return np.stack(out)

    def moments(self, X: np.ndarray, model: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (N, P) of f at the rows of X."""
        rows, model = max(1, BLOCK // len(self.values["X"])), model or self.model
        with tf.device(self.device):
            parts = [model.predict_f(X[i : i + rows]) for i in range(0, len(X), rows)]
        mean, var = (np.concatenate([a.numpy() for a in column]) for column in zip(*parts, strict=True))
        return mean, var

    # ---- parameters ---------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, np.ndarray]:
        return self.values

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        self.values = {name: np.asarray(v, np.float64) for name, v in values.items()}
        self.model = self.gpflow_model(self.values)

    def gpflow_model(self, values: dict[str, np.ndarray]) -> Any:
        """The model with these values, those of kernel and likelihood among them."""
        kernel = to_gpflow(self._kernel(values["X"].shape[1]), scope(values, "kernel"))
        with tf.device(self.device):
            return self.build(kernel, in_gpflow(self.likelihood, scope(values, "likelihood")), values)

    def gps(self) -> int:
        """Functions of the fitted model."""
        return self.values["Y"].shape[1]

    def _kernel(self, dim: int) -> Kernel:
        text = self.settings["kernel"]
        try:
            return kernels.parse(text, dim, bool(self.settings["ard"]))
        except KernelError as error:
            raise UserError(f"model.kernel={text} {error}") from None
