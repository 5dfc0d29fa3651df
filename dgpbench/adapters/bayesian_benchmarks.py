"""Both ways between dgpbench and bayesian_benchmarks, which has `fit(X, Y)`, `predict(Xs)`, `sample(Xs, n)`.

BenchmarkModel: a dgpbench model where that package expects one. Wrapped: a model written for that package,
run here. The package itself is imported only when a model of its own is asked for by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from dgpbench.api.fitted import predictive_chunks, train
from dgpbench.config import compose
from dgpbench.config.classes import load_class
from dgpbench.data.labels import task_of
from dgpbench.data.split import Split
from dgpbench.engine.context import RunContext
from dgpbench.errors import UserError
from dgpbench.evaluate.evaluation import chunk_seed
from dgpbench.evaluate.predictive import Predictive

QUICK = ("budget.steps=10", "budget.seconds=null", "protocol.test_samples=10", "engine.xla=false")
OUTPUTS = ("auto", "predict", "sample")
CLIP = 1e-12  # of class probabilities, as in that package


class BenchmarkModel:
    """Any dgpbench model as a regression model of bayesian_benchmarks.

    X and Y are used as given (that package standardises them). Predictions equal those of `dgpbench run`
    with the same settings, seed and data.
    """

    def __init__(
        self, is_test: bool = False, seed: int = 0, model: str = "dgp2", overrides: Sequence[str] = ()
    ):
        quick = QUICK if is_test else ()
        self.cfg = compose([f"model={model}", f"seed={seed}", *quick, *overrides])
        self.notes: list[str] = []
        self.model = None
        self._outputs, self._samplings = 1, 0

    def fit(self, X: np.ndarray, Y: np.ndarray) -> None:
        """Train from scratch; a second call with data of the same shape reuses the compiled steps."""
        if np.ndim(X) != 2 or np.ndim(Y) != 2 or len(X) != len(Y):
            raise UserError(f"fit takes X (N, D) and Y (N, P); got shapes {np.shape(X)} and {np.shape(Y)}")
        self._samplings, self._outputs = 0, np.shape(Y)[1]
        self.model = train(self.cfg, Split.from_arrays(X, Y), self.notes.append)

    def predict(self, Xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y (N, P), likelihood noise included."""
        protocol, seed = self.cfg["protocol"], self.cfg["seed"]
        parts = predictive_chunks(self._fitted(), np.asarray(Xs, np.float64), protocol, seed, self._outputs)
        moments = [(p.mixture_mean(), p.mixture_sd() ** 2) for _, p in parts]
        mean, var = (np.concatenate(values) for values in zip(*moments, strict=True))
        return mean, var

    def sample(self, Xs: np.ndarray, num_samples: int) -> np.ndarray:
        """Draws of y (S, N, P), one per sample of the inner layers. Every call draws anew."""
        self._samplings += 1
        seed = chunk_seed(self.cfg["seed"], 2**31 + self._samplings)  # apart from the seeds of predict
        counts = {"test_samples": num_samples, "draws": num_samples}
        parts = predictive_chunks(self._fitted(), np.asarray(Xs, np.float64), counts, seed, self._outputs)
        return np.concatenate([p.draw(num_samples, seed, start) for start, p in parts], 1)

    def _fitted(self):
        if self.model is None:
            raise UserError("the model is not fitted; call fit(X, Y) first")
        return self.model


class ClassificationBenchmarkModel:
    """Any dgpbench model that takes classes as a classification model of bayesian_benchmarks, for K classes.

    Labels are 0 ... K-1, as that package has them.
    """

    def __init__(
        self,
        K: int,
        is_test: bool = False,
        seed: int = 0,
        model: str = "dgp2",
        overrides: Sequence[str] = (),
    ):
        self.K = int(K)
        self.cfg = compose([f"model={model}", f"seed={seed}", *(QUICK if is_test else ()), *overrides])
        self.cfg = self.cfg | {"dataset": {"name": "arrays", "task": task_of(self.K)}}
        self.notes: list[str] = []
        self.model = None

    def fit(self, X: np.ndarray, Y: np.ndarray) -> None:
        """Train from scratch on X (N, D) and labels Y (N, 1)."""
        if np.ndim(X) != 2 or np.shape(Y) != (len(X), 1):
            raise UserError(f"fit takes X (N, D) and Y (N, 1); got shapes {np.shape(X)} and {np.shape(Y)}")
        if not np.isin(Y, np.arange(self.K)).all():
            raise UserError(f"labels must be 0 to {self.K - 1}; Y has others")
        split = Split.from_arrays(X, Y, task=task_of(self.K), n_classes=self.K)
        self.model = train(self.cfg, split, self.notes.append)

    def predict(self, Xs: np.ndarray) -> np.ndarray:
        """Class probabilities (N, K)."""
        if self.model is None:
            raise UserError("the model is not fitted; call fit(X, Y) first")
        protocol, seed = self.cfg["protocol"], self.cfg["seed"]
        parts = predictive_chunks(self.model, np.asarray(Xs, np.float64), protocol, seed, 1, self.K)
        return np.concatenate([part.probs for _, part in parts])


class Wrapped:
    """A model of bayesian_benchmarks as a model of this harness (`model.wrapped: module.Class`).

    Such models draw from numpy's global generator; it is seeded for each call and put back afterwards.
    """

    def __init__(self, cfg: dict):
        settings = cfg["model"]
        self.name, self.output = settings["wrapped"], settings["output"]
        if not self.name:
            raise UserError("model.wrapped needs a value; add model.wrapped=module.Class")
        if self.output not in OUTPUTS:
            raise UserError(f"model.output={self.output} is not allowed; give one of {', '.join(OUTPUTS)}")
        self.options = {"is_test": settings["is_test"]}
        classes = cfg["dataset"]["task"] != "regression"
        given = "." in self.name
        self.factory = load_class("model.wrapped", self.name) if given else _by_name(self.name, classes)
        if not inspect.isclass(self.factory) and not inspect.isfunction(self.factory):
            raise UserError(f"model.wrapped={self.name} is no class; give module.Class")
        self.model = None

    def fit(self, split: Split, run: RunContext) -> None:
        options = self.options | {"seed": run.seed} | ({"K": split.n_classes} if split.n_classes else {})
        self.classes = split.n_classes
        takes = inspect.signature(self.factory).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in takes.values()):
            options = {name: value for name, value in options.items() if name in takes}  # older: no seed
        with _numpy_seed(run.seed):
            self.model = self.factory(**options)
            self.model.fit(split.X_train, split.Y_train)

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        """One Gaussian from mean and variance (or S of them, if they are (S, N, P)), else draws; of classes
        their probabilities, averaged over samples and clipped as that package does."""
        with _numpy_seed(seed):
            if self.classes:
                probs = np.clip(np.asarray(self.model.predict(X), np.float64), CLIP, 1.0 - CLIP)
                probs = probs / probs.sum(-1, keepdims=True)
                return Predictive(probs=probs if probs.ndim == 2 else probs.mean(0))
            if self.output == "sample" or (self.output == "auto" and not hasattr(self.model, "predict")):
                return Predictive(draws=np.asarray(self.model.sample(X, samples)))
            try:
                mean, var = (np.asarray(values) for values in self.model.predict(X))
            except NotImplementedError:  # as that package's template class has it
                self.output = "sample"
                return self.predict(X, samples, seed)
        mean, var = (values if values.ndim == 3 else values[None] for values in (mean, var))
        return Predictive(mean=mean, var=var)

    def parameters(self) -> dict[str, np.ndarray]:
        return {}

    def load_parameters(self, values: dict[str, np.ndarray]) -> None:
        raise UserError(
            f"model.wrapped={self.name} cannot be scored again: bayesian_benchmarks saves no models; "
            "run the unit again with --force"
        )


def _by_name(name: str, classes: bool = False) -> type:
    """A model of bayesian_benchmarks itself, e.g. svm."""
    try:
        from bayesian_benchmarks.models import get_model
    except ModuleNotFoundError as error:
        raise UserError(
            f"model.wrapped={name} is a model of bayesian_benchmarks, which cannot be imported ({error}); "
            "install it, or give module.Class"
        ) from error
    all_models = get_model.all_classification_models if classes else get_model.all_regression_models
    if name not in all_models:
        known = ", ".join(all_models)
        raise UserError(f"model.wrapped={name} is no model of bayesian_benchmarks; it has: {known}")
    return (get_model.get_classification_model if classes else get_model.get_regression_model)(name)


@contextmanager
def _numpy_seed(seed: int) -> Iterator[None]:
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)
