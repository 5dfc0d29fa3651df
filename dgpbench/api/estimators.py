"""scikit-learn estimators: any model of dgpbench in a Pipeline, in cross_val_score, in a grid search.

Inputs and targets are standardised by the training rows inside, as a run does. Nothing is written to disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dgpbench.api.fitted import LEVELS, Fitted, Prediction, train
from dgpbench.config import compose
from dgpbench.config.keys import likelihood_settings
from dgpbench.data.labels import task_of
from dgpbench.data.scaling import moments, scale, scale_targets
from dgpbench.data.split import Split
from dgpbench.data.transform import Transform
from dgpbench.errors import UserError
from dgpbench.models.base import check_task, create
from dgpbench.store.model_files import split_parameters, unpack


class _Estimator(BaseEstimator):
    """What both share. Fitted state is plain: config, arrays, scaling; the model itself is made when it is
    needed, so that an estimator can be pickled and sent to other processes."""

    def __init__(self, model: str = "dgp2", overrides: Sequence[str] = (), seed: int = 0):
        self.model = model
        self.overrides = overrides
        self.seed = seed

    def _train(self, X: np.ndarray, Y: np.ndarray, task: str, classes: tuple[str, ...] = ()) -> None:
        cfg = compose([f"model={self.model}", f"seed={self.seed}", *self.overrides])
        cfg = cfg | {"dataset": {"name": "arrays", "task": task}}
        x_mean, x_std = scale(moments(X), "train")
        y_mean, y_std = np.zeros(Y.shape[1]), np.ones(Y.shape[1])
        if not classes:
            y_mean, y_std = scale_targets(Y, None, "train", likelihood_settings(cfg))
        self.config_ = cfg
        self.transform_ = Transform(x_mean, x_std, y_mean, y_std, classes)
        self.notes_: list[str] = []
        scaled = (X - x_mean) / x_std, (Y - y_mean) / y_std
        split = Split.from_arrays(*scaled, task=task, n_classes=len(classes))
        check_task(create(cfg), self.model, split)
        fitted = train(cfg, split, self.notes_.append)
        values, self.model_file_ = split_parameters(fitted.parameters())
        self.parameters_ = {name: np.asarray(value) for name, value in values.items()}
        self._model = fitted

    def distribution(self, X: Any, quantiles: Sequence[float] = LEVELS) -> Prediction:
        """The whole prediction at X: mean, sd and quantiles, or class probabilities."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        return Fitted(self._fitted_model(), self.transform_, self.config_).predict(X, quantiles)

    def _fitted_model(self):
        if getattr(self, "_model", None) is None:
            if not self.parameters_ and not self.model_file_:
                raise UserError(
                    f"model={self.model} keeps no parameters: it cannot be copied to another process"
                )
            self._model = create(self.config_)
            file = self.model_file_  # whoever unpickled this estimator has trusted all of it
            self._model.load_parameters(unpack(file) if file else self.parameters_)
        return self._model

    def __getstate__(self) -> dict:
        return {name: value for name, value in super().__getstate__().items() if name != "_model"}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.non_deterministic = False
        return tags


class Regressor(RegressorMixin, _Estimator):
    """A regression model: `model` is a name as in `dgpbench run model=...`, `overrides` are further settings.

    Targets may have several columns. Attributes after `fit`: config_, notes_, n_features_in_.
    """

    def fit(self, X: Any, y: Any) -> Regressor:
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        self._flat = np.ndim(y) == 1
        self._train(X, np.asarray(y, np.float64).reshape(len(X), -1), "regression")
        return self

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Mean of y, (N,) or (N, P) as y was; with return_std also its standard deviation, noise included."""
        found = self.distribution(X, ())
        mean, sd = found.mean, found.sd
        if not self._flat and mean.ndim == 1:
            mean, sd = mean[:, None], sd[:, None]
        return (mean, sd) if return_std else mean

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


class Classifier(ClassifierMixin, _Estimator):
    """A classifier; labels may be numbers or text. Attributes after `fit`: classes_, config_, notes_."""

    def fit(self, X: Any, y: Any) -> Classifier:
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ValueError(f"Classifier needs two classes or more; y has 1 class: {self.classes_[0]}")
        names = tuple(str(label) for label in self.classes_)
        self._train(X, codes.reshape(-1, 1).astype(np.float64), task_of(count), names)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities (N, C) in the order of classes_."""
        return self.distribution(X).probs

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class."""
        probs = self.predict_proba(X)
        return self.classes_[probs.argmax(1)]
