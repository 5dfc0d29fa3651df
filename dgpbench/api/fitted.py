"""Fitted models: predictions at new inputs, in original units, with the scaling of the run."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import numpy as np

from dgpbench.api.distribution import Distribution, check_levels, exact_quantiles
from dgpbench.config.derived import budget_of, planned_steps
from dgpbench.data.prepare import Recipe
from dgpbench.data.scaling import Transform, separate
from dgpbench.data.split import Split
from dgpbench.engine.context import RunContext, Silent, StopRule
from dgpbench.errors import Diverged, Interrupted, UserError
from dgpbench.evaluate.evaluation import chunk_rows, chunk_seed
from dgpbench.evaluate.predictive import Predictive
from dgpbench.evaluate.scorers import EXACT_COMPONENTS
from dgpbench.experiment import evaluation_protocol, run_seed
from dgpbench.models.base import Model, create
from dgpbench.progress import Reporter
from dgpbench.store import read
from dgpbench.store.read import check_allowed, file_of, load_parameters
from dgpbench.store.scan import Unit, locate

if TYPE_CHECKING:
    import pandas as pd

    from dgpbench.models.gp import GPModel

LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)


@dataclass(frozen=True)
class Prediction:
    """Predictions at N inputs, in original units.

    Arrays of one output have shape (N,), of P outputs (N, P). Regression has `mean`, `sd` and `quantiles`,
    (N, L) or (N, P, L) at L `levels`. Classification has `probs` (N, C) in the order of `classes`, and
    `labels`. Reading an array that the task does not have raises ValueError.

    Examples
    --------
    >>> import dgpbench, numpy as np
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> found = dgpbench.Regressor("linear").fit(X, X[:, 0]).distribution(X, quantiles=(0.1, 0.9))
    >>> found.quantiles.shape
    (20, 2)
    >>> list(found.frame())
    ['mean', 'sd', 'q10', 'q90']
    """

    arrays: dict[str, np.ndarray]
    levels: tuple[float, ...] = ()
    classes: tuple[str, ...] = ()

    @property
    def mean(self) -> np.ndarray:
        """Mean of y."""
        return self._array("mean")

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation of y, with the noise included."""
        return self._array("sd")

    @property
    def quantiles(self) -> np.ndarray:
        """Quantiles of y at `levels`."""
        return self._array("quantiles")

    @property
    def probs(self) -> np.ndarray:
        """Class probabilities."""
        return self._array("probs")

    @property
    def labels(self) -> np.ndarray:
        """Most probable class of each row."""
        return np.asarray(self.classes)[self.probs.argmax(1)]

    def columns(self) -> dict[str, np.ndarray]:
        """Return the arrays as columns of a table.

        Returns
        -------
        dict of str to ndarray of shape (N,)
            ``mean``, ``sd``, ``q2.5``, ... with ``_0``, ``_1``, ... for several outputs; for classes
            ``class`` and ``p_LABEL``.
        """
        if self.classes:
            shares = {f"p_{name}": self.probs[:, i] for i, name in enumerate(self.classes)}
            return {"class": self.labels} | shares
        several = self.mean.ndim == 2
        out: dict[str, np.ndarray] = {}
        for p in range(self.mean.shape[1] if several else 1):
            tail, pick = (f"_{p}", (slice(None), p)) if several else ("", (slice(None),))
            out[f"mean{tail}"], out[f"sd{tail}"] = self.mean[pick], self.sd[pick]
            for i, level in enumerate(self.levels):
                out[f"q{100 * level:g}{tail}"] = self.quantiles[pick][:, i]
        return out

    def _array(self, name: str) -> np.ndarray:
        if name not in self.arrays:
            has = ", ".join(self.arrays)
            raise ValueError(f"no {name} in a prediction of this task; it has {has}")
        return self.arrays[name]

    def frame(self) -> pd.DataFrame:
        """Return the columns as a table.

        Returns
        -------
        pandas.DataFrame
            One row per input.
        """
        import pandas as pd

        return pd.DataFrame(self.columns())

    def _repr_html_(self) -> str:
        return self.frame()._repr_html_()


@dataclass(frozen=True, repr=False)
class Fitted:
    """A trained model with its scaling; `config` is the config of its run.

    `dgpbench.load` returns one.
    """

    model: Model
    transform: Transform
    config: dict
    recipe: Recipe | None = None  # of a run with dataset.prepare=auto

    def __repr__(self) -> str:
        names = (str(self.config[part]["name"]) for part in ("model", "dataset"))
        return f"<Fitted {' on '.join(names)}>"

    def predict(self, X: np.ndarray | pd.DataFrame, quantiles: Sequence[float] = LEVELS) -> Prediction:
        """Predict y, or class probabilities.

        Chunks, seeds and numbers of samples are those of the run's evaluation. At its test rows the
        predictions equal those of its record.

        Parameters
        ----------
        X : ndarray or DataFrame
            Inputs (N, D) in original units. Columns of a DataFrame go by name. For a run with
            `dataset.prepare=auto`, a DataFrame has the columns of the user's table, and the recipe of the
            run prepares them; an array has the prepared inputs (`transform.names`).
        quantiles : sequence of float, default=(0.025, 0.25, 0.5, 0.75, 0.975)
            Levels of the quantiles; ignored for classes.

        Returns
        -------
        Prediction

        Raises
        ------
        UserError
            If X has the wrong shape or contains NaN or infinity, or a level is not between 0 and 1.

        Warns
        -----
        UserWarning
            If values are missing, or in a category, in a way that the training rows were not.
        """
        levels = check_levels(np.asarray(quantiles, np.float64))
        if self.recipe is not None and not isinstance(X, np.ndarray) and hasattr(X, "columns"):
            X, notes = self.recipe.apply(X)
            for note in notes:
                warnings.warn(note, UserWarning, stacklevel=2)
        X = self.transform.inputs(X)
        protocol, seed = evaluation_protocol(self.model, self.config), run_seed(self.config)
        classes = self.transform.classes
        parts = predictive_chunks(self.model, X, protocol, seed, self.transform.outputs, len(classes))
        if classes:
            probs = [_probs(part) for _, part in parts]
            return Prediction({"probs": _joined(probs, (0, len(classes)))}, classes=classes)
        shift, scale, P = self.transform.y_mean, self.transform.y_std, self.transform.outputs
        means, sds, found = [], [], []
        for start, part in parts:
            means.append(part.mixture_mean() * scale + shift)
            sds.append(part.mixture_sd() * scale)
            q = quantiles_of(part, levels, protocol["draws"], seed, start)
            found.append(q * scale[:, None] + shift[:, None])
        arrays = {
            "mean": _joined(means, (0, P)),
            "sd": _joined(sds, (0, P)),
            "quantiles": _joined(found, (0, P, len(levels))),
        }
        if P == 1:
            arrays = {name: array[:, 0] for name, array in arrays.items()}
        return Prediction(arrays, levels=tuple(float(level) for level in levels))

    def predict_dist(self, X: np.ndarray, flat: bool | None = None) -> Distribution:
        """Return the predictive distribution of y, with density, distribution function and draws.

        Parameters
        ----------
        X : array of shape (N, D)
            Inputs in original units.
        flat : bool, default=None
            Whether arrays have shape (N,) instead of (N, 1); None means (N,) for one output.

        Returns
        -------
        Distribution

        Raises
        ------
        UserError
            If the model predicts classes, or X is empty, has the wrong shape or is not finite.
        """
        transform = self.transform
        if transform.classes:
            raise UserError("a model of classes has no distribution of y; use its class probabilities")
        X = transform.inputs(X)
        if not len(X):
            raise UserError("X has no rows; give at least one input")
        protocol, seed = evaluation_protocol(self.model, self.config), run_seed(self.config)
        chunks = list(predictive_chunks(self.model, X, protocol, seed, transform.outputs))
        starts = [start for start, _ in chunks]
        density, discrete = getattr(self.model, "log_density", None), getattr(self.model, "discrete", False)
        log_scale = 0.0 if discrete else float(np.log(transform.y_std).sum())

        def terms(index: int, y: np.ndarray) -> np.ndarray | None:
            part = X[starts[index] : starts[index] + len(y)]
            Y = (y - transform.y_mean) / transform.y_std
            if density is None:
                return None
            found = density(part, Y, protocol["test_samples"], chunk_seed(seed, index))
            return None if found is None else found - log_scale

        parts = tuple(part.rescale(transform.y_mean, transform.y_std) for _, part in chunks)
        return Distribution(parts, transform.outputs == 1 if flat is None else flat, terms)


def load(
    run: str | Path | Unit, results: str | Path | None = None, allow_models: Sequence[str] = ()
) -> Fitted:
    """Load the fitted model of a finished run.

    Parameters
    ----------
    run : Run, str or path
        What `dgpbench.run` returned, the folder of a run, its record.json, or the first digits of its key.
    results : path, default=None
        Results folder in which to look for a key; None means DGPBENCH_RESULTS, or ``results``.
    allow_models : sequence of str, default=()
        Names of models that may be loaded from files of other libraries, which can run any code.

    Returns
    -------
    Fitted

    Raises
    ------
    UserError
        If there is no such run, it did not finish, its parameters are missing, or its model is in another
        library's file and is not allowed.

    Examples
    --------
    >>> run = dgpbench.run("model=linear", "dataset=step")
    >>> dgpbench.load(run).predict([[0.2], [0.8]]).mean.shape
    (2,)
    """
    if not isinstance(run, Unit | str | os.PathLike):
        raise UserError(
            f"{run!r} is not a run; give a Run, the folder of a run, or the first digits of its key"
        )
    unit = run if isinstance(run, Unit) else locate(run, results)
    check_allowed(unit, allow_models)
    config = unit.record.config
    model = create(config)
    values, transform = separate(read.arrays(unit))
    model.load_parameters(load_parameters(unit, allow_models) if file_of(unit.record) else values)
    transform = transform or _from_data(unit)
    return Fitted(model, transform, config, _recipe(unit, transform))


def _recipe(unit: Unit, transform: Transform) -> Recipe | None:
    """Return the recipe of a run whose table was prepared; UserError if the record has none that fits."""
    if unit.record.config["dataset"].get("prepare", "none") != "auto":
        return None
    try:
        recipe = Recipe.from_document(unit.record.details.get("prepare"))
    except (ValueError, TypeError) as error:
        raise UserError(f"{unit.path}: its recipe cannot be used ({error}); run it again") from None
    if len(recipe.names) != len(transform.x_mean):
        raise UserError(f"{unit.path}: its recipe does not fit its model; run it again")
    return recipe


class Curve(Reporter):
    """Reporter that also keeps the training curve: steps, seconds since the start, and bound."""

    def __init__(self, verbose: bool = False):
        super().__init__(verbosity=0 if verbose else -1)
        self.points: list[tuple[int, float, float]] = []
        self._since = 0.0

    def start(self, total_steps: int | None, total_seconds: float | None) -> None:
        self.points, self._since = [], time.perf_counter()
        super().start(total_steps, total_seconds)

    def update(self, step: int, bound: float, steps_per_second: float, seconds_left: float | None) -> None:
        self.points.append((step, time.perf_counter() - self._since, float(bound)))
        super().update(step, bound, steps_per_second, seconds_left)


def train(
    cfg: dict,
    split: Split,
    note: Callable[[str], None] = lambda text: None,
    reporter: Silent | None = None,
) -> Model:
    """Return a model fitted to a split of arrays; nothing is kept on disk."""
    model, budget, engine = create(cfg), budget_of(cfg), cfg["engine"]
    if (tracker := cfg.get("tracker", {}).get("name", "none")) != "none":
        raise UserError(f"tracker={tracker} logs runs and sweeps only; remove it")
    with TemporaryDirectory() as folder:
        run = RunContext(
            key="",
            folder=Path(folder),
            seed=cfg["seed"],
            steps=planned_steps(budget, split.n_train),
            seconds=budget["seconds"],
            stop=StopRule.of(budget),
            reporter=reporter or Silent(),
            note=note,
            block_seconds=engine["block_seconds"],
            checkpoint_seconds=np.inf,
        )
        try:
            model.fit(split, run)
        except Interrupted as error:  # nothing stays here from which a run could resume
            raise KeyboardInterrupt from error
    return model


def predictive_chunks(
    model: Model, X: np.ndarray, protocol: dict, seed: int, outputs: int, classes: int = 0
) -> Iterator[tuple[int, Predictive]]:
    """(first row, predictive) over scaled rows X, with the chunks and seeds of an evaluation.

    A model without a density is asked for protocol["draws"] draws of y.
    """
    samples, draws = protocol["test_samples"], protocol["draws"]
    rows = chunk_rows(samples, samples, classes) if classes else chunk_rows(samples, draws, outputs)
    for index, start in enumerate(range(0, len(X), rows)):
        part, part_seed = X[start : start + rows], chunk_seed(seed, index)
        predictive = model.predict(part, samples, part_seed)
        if predictive.kind == "draws" and samples < draws:
            samples = draws
            predictive = model.predict(part, samples, part_seed)
        if problem := predictive.problem():
            raise Diverged(problem)
        yield start, predictive


def quantiles_of(predictive: Predictive, levels: np.ndarray, draws: int, seed: int, first: int) -> np.ndarray:
    """Return quantiles (N, P, L): exact for small mixtures, else those of draws, as in an evaluation."""
    if predictive.kind == "mixture" and predictive.num_components <= EXACT_COMPONENTS:
        return exact_quantiles(predictive, levels)
    found = np.quantile(predictive.draw(draws, seed, first), levels, axis=0)  # L, N, P
    return found.transpose(1, 2, 0)


def _probs(predictive: Predictive) -> np.ndarray:
    if predictive.probs is None:
        raise ValueError(f"a model of classes must predict probabilities, not {predictive.kind}")
    return predictive.probs


def _joined(arrays: Sequence[np.ndarray], empty: tuple[int, ...]) -> np.ndarray:
    return np.concatenate(arrays) if len(arrays) else np.empty(empty)


def _from_data(unit: Unit) -> Transform:
    """The scaling of a run from before it was stored: made again from its data."""
    from dgpbench.config import compose
    from dgpbench.data.loader import load_split

    paths = compose()["paths"] | {"results": os.fspath(unit.folder)}
    split = load_split(unit.record.config | {"paths": paths})
    if split.data_hash != unit.record.data_hash:
        raise UserError(f"{unit.path}: the data are not those it was trained on; fetch the dataset again")
    return Transform.of(split)


def model_and_split(unit: Unit) -> tuple[GPModel, Split]:
    """Return the model of a run as it was trained, and its split.

    Raises `Nothing` where the data are others now, and UserError if the parameters were not kept.
    """
    from dgpbench.data.loader import load_split
    from dgpbench.report.charts import Nothing

    config = unit.record.config
    stored = read.parameters(unit)
    split = load_split(config, lambda text: None)
    if split.data_hash != unit.record.data_hash:
        raise Nothing("the data are not those it was trained on; fetch the dataset again")
    model = cast("GPModel", create(config))
    model.load_parameters({name: v for name, v in stored.items() if not name.startswith("scaling/")})
    return model, split


def layers_of(unit: Unit) -> tuple[Split, Callable[[np.ndarray, int, int], list[np.ndarray]]]:
    """Return the split of a run, and a function that samples the outputs of its model's layers."""
    from dgpbench.models.inside import layer_samples

    model, split = model_and_split(unit)
    return split, partial(layer_samples, model)
