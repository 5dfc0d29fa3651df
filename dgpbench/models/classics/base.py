"""What the classical GPs share: start, the memory they need, training, prediction, parameters."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import Any, ClassVar

import numpy as np

from dgpbench.config.kernel_names import KernelError
from dgpbench.config.schema import Field
from dgpbench.engine.context import RunContext
from dgpbench.engine.platform import choose_device, set_threads, tf  # before GPflow starts TensorFlow
from dgpbench.errors import UserError
from dgpbench.evaluate.predictive import Predictive
from dgpbench.gp import kernels, likelihoods
from dgpbench.gp.kernels.base import Kernel
from dgpbench.gp.kernels.in_gpflow import to_gpflow, values_of
from dgpbench.gp.likelihoods import in_gpflow
from dgpbench.gp.parameters import below, scope
from dgpbench.models.baselines.options import option
from dgpbench.models.classics.lbfgs import maximise

FROZEN = Field(int, low=0)
BLOCK = 2**24  # covariances of test and training rows, at a time


class Classic(ABC):
    """A GPflow model, with the zero mean function, over all training rows, in float64.

    Parameters are named as everywhere in this package, with the training rows X, Y beside them.
    """

    tasks: tuple[str, ...] = ("regression",)
    evidence_kind: ClassVar[str]  # what stands under `evidence` in the record
    instead: ClassVar[str] = "model=sgpr, or sgp or gp (the IWVI paper's), which are sparse"  # for more rows

    def __init__(self, cfg: dict):
        self.cfg, self.settings, self.name = cfg, cfg["model"], cfg["model"]["name"]
        likelihood = cfg["likelihood"]["name"]
        if self.tasks == ("regression",) and likelihood not in ("auto", "gaussian"):
            raise UserError(
                f"likelihood={likelihood} is not possible with model={self.name}, whose noise is Gaussian;"
                " use model=vgp or sgp, or leave likelihood=auto"
            )
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
                f"model={self.name} on {split.n_train:,} training rows needs about {needed:,.1f} GB;"
                f" {most:,} rows fit in engine.memory_limit_gb={limit:g}: raise it, or use {self.instead}"
            )
        kernel = self._kernel(split.dim)
        to_gpflow(kernel, kernel.initial(1.0, 1.0, 1.0))  # refuses what GPflow lacks
        in_gpflow.to_gpflow(likelihood, likelihood.initial())  # likewise
        return f"{self.evidence_kind}, {likelihood.name}, kernel {kernel}"

    def fit(self, split, run: RunContext) -> dict[str, Any]:
        self.start(split, run.seed)
        s, X, Y = self.settings, split.X_train, split.Y_train
        likelihood = likelihoods.choose(self.cfg, split)
        scale = math.sqrt(split.dim) if s["lengthscale"] == "sqrt_dim" else s["lengthscale"]
        initial = self._kernel(split.dim).initial(s["kernel_variance"], scale, s["likelihood_variance"])
        values = {"X": X, "Y": Y} | below("kernel", initial) | below("likelihood", likelihood.initial())
        self.load_parameters(values | self.own_initial(X, likelihood.gps(split.outputs), run.seed))
        with tf.device(self.device):
            result = maximise(self.model, run, self.frozen_steps)
        trained = {name: getattr(self.model.likelihood, name).numpy() for name in likelihood.positive}
        values |= below("kernel", values_of(self._kernel(split.dim), self.model.kernel))
        self.load_parameters(values | below("likelihood", trained) | self.own_values())
        return {"evidence_kind": self.evidence_kind} | result

    def moments(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (N, P) of f at the rows of X."""
        rows = max(1, BLOCK // len(self.values["X"]))
        with tf.device(self.device):
            parts = [self.model.predict_f(X[i : i + rows]) for i in range(0, len(X), rows)]
        mean, var = (np.concatenate([a.numpy() for a in column]) for column in zip(*parts, strict=True))
        return mean, var

    # ---- prediction as the likelihood asks -----------------------------------------------------------

    @property
    def likelihood(self) -> likelihoods.Likelihood:
        return likelihoods.of_size(self.cfg, self.gps(), scope(self.values, "likelihood"))

    @property
    def discrete(self) -> bool:
        """Whether y takes separate values."""
        return bool(self.values) and self.likelihood.discrete

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        likelihood, p = self.likelihood, scope(self.values, "likelihood")
        mean, var = self.moments(X)
        if isinstance(likelihood, likelihoods.Gaussian):
            return Predictive(mean=mean[None], var=var[None] + p["variance"])
        if hasattr(likelihood, "probs"):
            return Predictive(probs=likelihood.probs(p, tf.constant(mean.T), tf.constant(var.T)).numpy().T)
        rng = np.random.default_rng((seed, 1))
        F = mean + np.sqrt(np.maximum(var, 0.0)) * rng.standard_normal((samples, *mean.shape))
        return Predictive(draws=likelihood.draw(p, F, rng))

    def log_density(self, X: np.ndarray, Y: np.ndarray, samples: int, seed: int) -> np.ndarray | None:
        """log p(y | x) (1, N) by quadrature; None where `predict` has it."""
        if isinstance(self.likelihood, likelihoods.Gaussian) or hasattr(self.likelihood, "probs"):
            return None
        mean, var, y = (tf.constant(a.T) for a in (*self.moments(X), Y))
        p = {name: tf.constant(v) for name, v in scope(self.values, "likelihood").items()}
        return self.likelihood.log_density(p, mean, var, y).numpy()[None]

    # ---- parameters ---------------------------------------------------------------------------------------

    def parameters(self) -> dict[str, np.ndarray]:
        return self.values

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        self.values = {name: np.asarray(v, np.float64) for name, v in values.items()}
        kernel = to_gpflow(self._kernel(self.values["X"].shape[1]), scope(self.values, "kernel"))
        own = scope(self.values, "likelihood")
        with tf.device(self.device):
            self.model = self.build(kernel, in_gpflow.to_gpflow(self.likelihood, own), self.values)

    def gps(self) -> int:
        """Functions of the fitted model."""
        return self.values["Y"].shape[1]

    def _kernel(self, dim: int) -> Kernel:
        text = self.settings["kernel"]
        try:
            return kernels.parse(text, dim, bool(self.settings["ard"]))
        except KernelError as error:
            raise UserError(f"model.kernel={text} {error}") from None
