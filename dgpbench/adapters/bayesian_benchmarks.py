"""Both ways between dgpbench and bayesian_benchmarks, which has `fit(X, Y)`, `predict(Xs)`, `sample(Xs, n)`.

BenchmarkModel: a dgpbench model where that package expects one. Wrapped: a model written for that package,
run here. The package itself is imported only when a model of its own is asked for by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from dgpbench.config import compose
from dgpbench.data.split import Split
from dgpbench.engine.context import RunContext, Silent
from dgpbench.errors import Diverged, Interrupted, UserError
from dgpbench.evaluate.evaluation import chunk_rows, chunk_seed
from dgpbench.evaluate.predictive import Predictive
from dgpbench.models.base import create, load_class

QUICK = ("budget.steps=10", "budget.seconds=null", "protocol.test_samples=10", "engine.xla=false")
OUTPUTS = ("auto", "predict", "sample")


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
        self.model, self._samplings, self._outputs = create(self.cfg), 0, np.shape(Y)[1]
        budget, engine = self.cfg["budget"], self.cfg["engine"]
        with TemporaryDirectory() as folder:
            run = RunContext(
                key="",
                folder=Path(folder),
                seed=self.cfg["seed"],
                steps=budget["steps"],
                seconds=budget["seconds"],
                reporter=Silent(),
                note=self.notes.append,
                block_seconds=engine["block_seconds"],
                checkpoint_seconds=np.inf,
            )
            try:
                self.model.fit(Split.from_arrays(X, Y), run)
            except Interrupted as error:  # nothing stays here from which a run could resume
                raise KeyboardInterrupt from error

    def predict(self, Xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y (N, P), likelihood noise included."""
        protocol = self.cfg["protocol"]
        rows = chunk_rows(protocol["test_samples"], protocol["draws"], self._outputs)
        parts = self._predictive(Xs, protocol["test_samples"], self.cfg["seed"], rows, protocol["draws"])
        moments = [(p.mixture_mean(), p.mixture_sd() ** 2) for p in parts]
        mean, var = (np.concatenate(values) for values in zip(*moments, strict=True))
        return mean, var

    def sample(self, Xs: np.ndarray, num_samples: int) -> np.ndarray:
        """Draws of y (S, N, P), one per sample of the inner layers. Every call draws anew."""
        self._samplings += 1
        seed = chunk_seed(self.cfg["seed"], 2**31 + self._samplings)  # apart from the seeds of predict
        rows = chunk_rows(num_samples, num_samples, self._outputs)
        parts = self._predictive(Xs, num_samples, seed, rows)
        return np.concatenate([p.draw(num_samples, seed, i * rows) for i, p in enumerate(parts)], 1)

    def _predictive(self, Xs, samples: int, seed: int, rows: int, draws: int = 0) -> Iterator[Predictive]:
        """The chunks and seeds of an evaluation; a model without a density is asked for `draws` of y."""
        if self.model is None:
            raise UserError("the model is not fitted; call fit(X, Y) first")
        Xs = np.asarray(Xs, np.float64)
        for index, start in enumerate(range(0, len(Xs), rows)):
            part, part_seed = Xs[start : start + rows], chunk_seed(seed, index)
            predictive = self.model.predict(part, samples, part_seed)
            if predictive.kind == "draws" and samples < draws:
                samples = draws
                predictive = self.model.predict(part, samples, part_seed)
            if problem := predictive.problem():
                raise Diverged(problem)
            yield predictive


class Wrapped:
    """A regression model of bayesian_benchmarks as a model of this harness (`model.wrapped: module.Class`).

    Such models draw from numpy's global generator; it is seeded for each call and put back afterwards.
    """

    tasks = ("regression",)

    def __init__(self, cfg: dict):
        settings = cfg["model"]
        self.name, self.output = settings["wrapped"], settings["output"]
        if not self.name:
            raise UserError("model.wrapped needs a value; add model.wrapped=module.Class")
        if self.output not in OUTPUTS:
            raise UserError(f"model.output={self.output} is not allowed; give one of {', '.join(OUTPUTS)}")
        self.options = {"is_test": settings["is_test"]}
        self.factory = load_class("model.wrapped", self.name) if "." in self.name else _by_name(self.name)
        self.model = None

    def fit(self, split: Split, run: RunContext) -> None:
        options = self.options | {"seed": run.seed}
        takes = inspect.signature(self.factory).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in takes.values()):
            options = {name: value for name, value in options.items() if name in takes}  # older: no seed
        with _numpy_seed(run.seed):
            self.model = self.factory(**options)
            self.model.fit(split.X_train, split.Y_train)

    def predict(self, X: np.ndarray, samples: int, seed: int) -> Predictive:
        """One Gaussian from mean and variance (or S of them, if they are (S, N, P)), else draws."""
        with _numpy_seed(seed):
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


def _by_name(name: str) -> type:
    """A model of bayesian_benchmarks itself, e.g. svm."""
    try:
        from bayesian_benchmarks.models import get_model
    except ModuleNotFoundError as error:
        raise UserError(
            f"model.wrapped={name} is a model of bayesian_benchmarks, which cannot be imported ({error}); "
            "install it, or give module.Class"
        ) from error
    if name not in get_model.all_regression_models:
        known = ", ".join(get_model.all_regression_models)
        raise UserError(f"model.wrapped={name} is no model of bayesian_benchmarks; it has: {known}")
    return get_model.get_regression_model(name)


@contextmanager
def _numpy_seed(seed: int) -> Iterator[None]:
    state = np.random.get_state()
    np.random.seed(seed)
    try:
        yield
    finally:
        np.random.set_state(state)
