"""What the scikit-learn estimators share: settings as arguments, training, saving and loading."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from dgpbench.api.fitted import LEVELS, Curve, Fitted, Prediction, train
from dgpbench.config import compose, refusals
from dgpbench.config.composition import check_words
from dgpbench.config.keys import likelihood_settings
from dgpbench.config.refusals import FIDELITIES, OURS, section_of, unused_sections
from dgpbench.config.schema import show_value
from dgpbench.config.sections import flatten
from dgpbench.data.atomic_files import atomic_file
from dgpbench.data.scaling import Transform, moments, scale, scale_targets, separate
from dgpbench.data.split import Split
from dgpbench.errors import UserError, message
from dgpbench.models.base import ANY, Model, create, refuse_split
from dgpbench.store.read import MAX_FILE, split_parameters, unpack, unpack_arrays
from dgpbench.store.trust import CODE, check_code, check_config
from dgpbench.store.untrusted import parse_json, read_regular
from dgpbench.store.write import write_npz

if TYPE_CHECKING:
    import pandas as pd

PARAMETERS = {  # constructor arguments and the settings that they mean
    "num_inducing": "model.num_inducing",
    "layers": "model.layers",
    "kernel": "model.kernel",
    "likelihood": "likelihood",
    "inference": "inference",
    "steps": "budget.steps",
    "learning_rate": "inference.adam.learning_rate",
    "batch_size": "inference.batch",
}
OF_RUNS = ("dataset", "split", "experiment", "tuned", "protocol", "paths", "launcher")  # not of estimators
OF_TRAINING_RUNS = ("engine.tensorboard", "engine.trace_test", "engine.checkpoint_seconds")
OF_PREDICTIONS = ("protocol.test_samples", "protocol.latent_samples", "protocol.draws")
FORMAT = 1  # of saved estimators
ABOUT, OWN = "estimator", "parameters/"  # names of arrays in them


class Estimator(BaseEstimator):
    """Base of both estimators.

    The fitted state is plain (config, arrays, scaling) and the model itself is made on demand, so that
    estimators can be pickled and sent to other processes.
    """

    def __init__(
        self,
        model: str = "dgp2",
        overrides: str | Sequence[str] = (),
        seed: int = 0,
        *,
        num_inducing: int | float | None = None,
        layers: int | Sequence[str] | None = None,
        kernel: str | None = None,
        likelihood: str | None = None,
        inference: str | None = None,
        steps: int | None = None,
        learning_rate: float | None = None,
        batch_size: int | None = None,
        verbose: bool = False,
    ):
        self.model = model
        self.overrides = overrides
        self.seed = seed
        self.num_inducing = num_inducing
        self.layers = layers
        self.kernel = kernel
        self.likelihood = likelihood
        self.inference = inference
        self.steps = steps
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.verbose = verbose

    def _config(self, task: str) -> dict:
        """Return the config of the parameters; raise UserError for settings that the model ignores."""
        words = [self.overrides] if isinstance(self.overrides, str) else list(self.overrides)
        check_words(words)
        chosen = [f"model={self.model}"]
        base = compose(chosen)
        if self.inference is not None and "inference" not in _unused_sections(base["model"]):
            chosen.append(f"inference={self.inference}")
            base = compose(chosen)
        given = {n: value for n in PARAMETERS if (value := getattr(self, n)) is not None}
        for text in self._without_effect(base, given, words):
            raise UserError(f"{text} does not apply to {' '.join(chosen)}; remove it")
        _check_words(words, {"model": "model", "seed": "seed"} | {PARAMETERS[n]: n for n in given})
        written = [f"{PARAMETERS[name]}={_written(name, value)}" for name, value in given.items()]
        cfg = compose([f"model={self.model}", f"seed={self.seed}", *written, *words])
        return cfg | {"dataset": {"name": "y", "task": task}}

    @staticmethod
    def _without_effect(base: dict, given: dict[str, Any], words: Sequence[str]) -> Iterator[str]:
        """Yield the parameters and overrides that the model of a config ignores."""
        unused, known = _unused_sections(base["model"]), flatten(base)
        for name, value in given.items():
            setting = PARAMETERS[name]
            if section_of(setting) in unused or ("." in setting and setting not in known):
                yield f"{name}={value}"
        yield from (word for word in words if section_of(word) in unused)

    def _train(self, X: np.ndarray, Y: np.ndarray, task: str, classes: tuple[str, ...] = ()) -> None:
        cfg = self._config(task)
        if cfg["model"]["_target_"] == FIDELITIES:
            raise UserError(
                f"model={self.model} needs the level of each row, which estimators have no argument for; "
                "use dgpbench.run with a dataset that has levels, such as dataset=mf_sine"
            )
        refusals.check(cfg)
        x_mean, x_std = scale(moments(X), "train")
        y_mean, y_std = np.zeros(Y.shape[1]), np.ones(Y.shape[1])
        if not classes:
            y_mean, y_std = scale_targets(Y, None, "train", likelihood_settings(cfg))
        split = Split.from_arrays(X, Y, dataset="y", task=task, n_classes=len(classes))
        split = replace(split, classes=classes, x_mean=x_mean, x_std=x_std, y_mean=y_mean, y_std=y_std)
        self._check_task(getattr(create(cfg), "tasks", ANY), task)
        refuse_split(cfg, split)
        notes: list[str] = []
        curve = Curve(self.verbose)

        def note(text: str) -> None:
            notes.append(text)
            curve.note(text)

        fitted = _with_common_noise(train(cfg, split, note, curve))
        self.config_, self.transform_, self.notes_ = cfg, Transform.of(split), notes
        self.history_ = _history(curve.points)
        values, self.model_file_ = split_parameters(fitted.parameters())
        self.parameters_ = {name: np.asarray(value) for name, value in values.items()}
        self._model = fitted

    def _check_task(self, tasks: Sequence[str], task: str) -> None:
        if task in tasks:
            return
        regression = task == "regression"
        there = "Classifier" if regression else "Regressor"
        instead = f"{there}, or " if regression == {"regression", "counts"}.isdisjoint(tasks) else ""
        example = "linear" if regression else "logistic"
        raise UserError(
            f"model {self.model} is for {' and '.join(tasks)}, not for {task}; use {instead}another model, "
            f"e.g. {example}, knn, sgp or dgp2"
        )

    def distribution(self, X: Any, quantiles: Sequence[float] = LEVELS) -> Prediction:
        """Return the prediction at X as arrays.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Inputs.
        quantiles : sequence of float, default=(0.025, 0.25, 0.5, 0.75, 0.975)
            Levels of the quantiles; ignored for classes.

        Returns
        -------
        Prediction
            Mean, standard deviation and quantiles; or class probabilities.
        """
        X = self._checked(X)
        return self._fitted().predict(X, quantiles)

    def _checked(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)

    def _fitted(self) -> Fitted:
        return Fitted(self._restored(), self.transform_, self.config_)

    def _restored(self) -> Model:
        """Return the model, made from its parameters after copying or loading."""
        if getattr(self, "_model", None) is None:
            self._check_parameters()
            self._model = _with_common_noise(create(self.config_))
            file = self.model_file_  # whoever unpickled this estimator has trusted all of it
            self._model.load_parameters(unpack(file) if file else self.parameters_)
        return self._model

    def _check_parameters(self) -> None:
        if not self.parameters_ and not self.model_file_:
            raise UserError(
                f"model={self.model} keeps no parameters: it cannot be saved or sent to another process"
            )

    def save(self, path: str | Path) -> None:
        """Save the fitted estimator to one file that holds arrays and JSON, no pickle.

        Parameters
        ----------
        path : path
            File to write, e.g. ``model.npz``. An existing file is replaced.

        Raises
        ------
        UserError
            If the model keeps no parameters, or the file cannot be written.
        """
        check_is_fitted(self)
        self._check_parameters()
        if self.model_file_:
            raise UserError(
                f"model={self.model} is stored by another library, which this file cannot hold; use "
                "dgpbench.run, whose record keeps the model, or joblib.dump"
            )
        about = {
            "format": FORMAT,
            "kind": type(self).__name__,
            "params": {name: _plain(value) for name, value in self.get_params(deep=False).items()},
            "config": {n: v for n, v in self.config_.items() if n not in ("paths", "launcher")},
            "notes": self.notes_,
            "features": int(self.n_features_in_),
            "names": [str(name) for name in getattr(self, "feature_names_in_", ())],
            **self._own_state(),
        }
        arrays = {OWN + name: value for name, value in self.parameters_.items()} | self.transform_.arrays()
        arrays["history"] = self.history_.to_numpy(np.float64)
        arrays[ABOUT] = np.array(json.dumps(about, allow_nan=False))
        file = Path(path).expanduser()
        try:
            with atomic_file(file) as handle:
                write_npz(handle, arrays)
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"cannot write {file} ({reason}); choose a file in a writable folder") from None

    def _own_state(self) -> dict[str, Any]:
        """Return what else a saved estimator needs, as JSON."""
        raise NotImplementedError

    def _take_state(self, about: dict[str, Any]) -> None:
        raise NotImplementedError

    @classmethod
    def load(cls, path: str | Path, allow: Sequence[str] = ()):
        """Load an estimator that `save` wrote.

        The file is checked and runs no code: it may come from others.

        Parameters
        ----------
        path : path
            File written by `save`.
        allow : sequence of str, default=()
            Packages of your own whose models may be imported. Models of dgpbench need none.

        Returns
        -------
        Regressor or Classifier

        Raises
        ------
        UserError
            If the file is missing, damaged, of the other estimator, or names code outside dgpbench and
            `allow`.
        """
        file = Path(path).expanduser()
        try:
            arrays = unpack_arrays(read_regular(file.resolve(), MAX_FILE))
            about = parse_json(str(arrays.pop(ABOUT)).encode())
            if about["kind"] != cls.__name__:
                raise ValueError(f"it holds a {str(about['kind'])[:20]}, not a {cls.__name__}")
            if about["format"] != FORMAT:
                raise ValueError(f"its format {str(about['format'])[:20]} is unknown; update dgpbench")
            check_config(about["config"], allow)
            _check_params(about["params"], allow)
            made = cls(**{name: _restored_value(value) for name, value in about["params"].items()})
            made._take(about, arrays)
        except OSError as error:
            raise UserError(f"cannot read {file} ({error.strerror or error}); give a saved file") from None
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, UserError) as error:
            reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
            reason = reason.replace("add --allow ", "pass allow=[...] with ")
            raise UserError(f"{file} is not a usable saved {cls.__name__}: {reason}") from None
        return made

    def _take(self, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Take over a saved state; any error means that the file is damaged."""
        here = compose()
        self.config_ = about["config"] | {name: here[name] for name in ("paths", "launcher")}
        self.history_ = _history(arrays.pop("history"))
        own, transform = separate(arrays)
        if transform is None or len(transform.x_mean) != about["features"]:
            raise ValueError("its scaling does not fit its number of inputs")
        self.transform_, self.notes_ = transform, [str(note) for note in about["notes"]]
        self.n_features_in_ = int(about["features"])
        if names := about["names"]:
            self.feature_names_in_ = np.array([str(name) for name in names], dtype=object)
        self.parameters_, self.model_file_ = {n.removeprefix(OWN): v for n, v in own.items()}, None
        self._take_state(about)
        try:
            self._restored()
        except Exception as error:
            raise ValueError(f"its parameters do not fit its model ({message(error)})") from None

    def __getstate__(self) -> dict:
        return {name: value for name, value in super().__getstate__().items() if name != "_model"}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        return tags


def _with_common_noise(model: Model) -> Model:
    """Return the model, which now predicts each row as if it were alone, whatever the other rows."""
    if hasattr(model, "common_noise"):
        model.common_noise = True
    return model


def _unused_sections(model: dict) -> tuple[str, ...]:
    """Return the sections of the config that a model ignores."""
    unused = unused_sections(model)
    if model.get("closed_form"):
        unused += ("budget",)
    gp = "layers" in model or model["_target_"] == FIDELITIES or not model["_target_"].startswith(OURS)
    return unused if gp or model.get("own_training") else (*unused, "likelihood")


def _check_words(words: Sequence[str], taken: dict[str, str]) -> None:
    """Raise UserError for overrides that an argument sets already, or that mean nothing to an estimator."""
    for word in words:
        name = word.partition("=")[0].lstrip("+")
        if name in taken:
            raise UserError(f"overrides: {word} is also set by the argument {taken[name]}; remove one")
        if word.endswith("budget.stop=validation"):
            raise UserError(
                "overrides: budget.stop=validation needs validation rows, which estimators do not hold out; "
                "use budget.stop=converged"
            )
        if name not in OF_PREDICTIONS and (section_of(word) in OF_RUNS or name in OF_TRAINING_RUNS):
            raise UserError(f"overrides: {word} has no effect on an estimator; remove it")


def _check_params(params: dict[str, Any], allow: Sequence[str]) -> None:
    """Raise ValueError for parameters of a saved estimator that name code of others."""
    values = [item for value in params.values() for item in (value if isinstance(value, list) else [value])]
    for word in values:
        if isinstance(word, str) and any(name in word for name in CODE):
            check_code({CODE[0]: word.partition("=")[2]}, allow)


def _written(name: str, value: Any) -> str:
    """Return a parameter's value as it is written on the command line."""
    value = _plain(value)
    if name == "layers" and isinstance(value, int) and not isinstance(value, bool):
        value = ["gp"] * value
    return repr(value) if isinstance(value, float) else show_value(value)


def _plain(value: Any) -> Any:
    """Return a parameter as JSON has it: no NumPy numbers, no tuples."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _restored_value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _history(points: Any) -> pd.DataFrame:
    """Return a training curve as a table."""
    import pandas as pd

    table = np.reshape(np.asarray(points, np.float64), (-1, 3))
    frame = pd.DataFrame(table, columns=["step", "seconds", "bound"])
    return frame.astype({"step": np.int64})
