"""scikit-learn estimators: any model of dgpbench in a Pipeline, in cross_val_score, in a grid search.

Inputs and targets are standardised by the training rows inside, as in a run. Fitting writes nothing to disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from dgpbench.api.distribution import Distribution
from dgpbench.api.estimator_base import Estimator
from dgpbench.data.labels import task_of


class Regressor(RegressorMixin, Estimator):
    """A regression model as a scikit-learn estimator.

    None means the default of the model. A parameter that the model ignores is an error.

    Parameters
    ----------
    model : str, default="dgp2"
        A model as in ``dgpbench run model=...``.
    overrides : str or sequence of str, default=()
        Further settings as on the command line, e.g. ``"model.ard=false"``.
    seed : int, default=0
        Seed of initial values, minibatches and samples.
    num_inducing : int or float, default=None
        Inducing points per layer; below 1 a share of the training rows.
    layers : int or sequence of str, default=None
        Number of GP layers, or their kinds, e.g. ``["lv", "gp"]``.
    kernel : str, default=None
        Kernel, e.g. ``"matern52"`` or ``"rbf+linear"``.
    likelihood : str, default=None
        Likelihood, e.g. ``"student_t"`` or ``"poisson"``.
    inference : str, default=None
        Inference method, e.g. ``"dsvi"``.
    steps : int, default=None
        Training steps; iterations of L-BFGS or trajectories for models trained by these.
    learning_rate : float, default=None
        Step size of Adam.
    batch_size : int, default=None
        Rows of a minibatch.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    history_ : pandas.DataFrame
        Training curve: `step`, `seconds` since the start (compilation included) and `bound`. Empty for
        models in closed form.
    config_ : dict
        All settings.
    notes_ : list of str
        Notes of the training.
    n_features_in_ : int
        Number of inputs.

    Examples
    --------
    >>> import dgpbench, numpy as np
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = dgpbench.Regressor("linear").fit(X, 3 * X[:, 0])
    >>> mean, sd = model.predict([[0.5]], return_std=True)
    >>> mean.round(3)
    array([1.5])

    ``GridSearchCV(dgpbench.Regressor("sgp"), {"num_inducing": [50, 100]})`` compares settings.
    """

    def fit(self, X: Any, y: Any) -> Regressor:
        """Train the model.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Inputs.
        y : array-like of shape (N,) or (N, P)
            Targets.

        Returns
        -------
        Regressor
            The estimator itself.

        Raises
        ------
        UserError
            If a setting is invalid, does not apply to the model, or does not fit the targets.
        ValueError
            If X or y has the wrong shape or contains NaN or infinity.
        """
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
        )
        self._flat = np.ndim(y) == 1
        self._train(X, np.asarray(y, np.float64).reshape(len(X), -1), "regression")
        return self

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the mean of y.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Inputs.
        return_std : bool, default=False
            Also return the standard deviation of y, with the noise included.

        Returns
        -------
        mean : ndarray of shape (N,) or (N, P), as y in `fit`
        std : ndarray of the same shape, if `return_std`
        """
        found = self.distribution(X, ())
        mean, sd = found.mean, found.sd
        if not self._flat and mean.ndim == 1:
            mean, sd = mean[:, None], sd[:, None]
        return (mean, sd) if return_std else mean

    def predict_dist(self, X: Any) -> Distribution:
        """Return the predictive distribution of y: density, distribution function, draws, quantiles.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Inputs.

        Returns
        -------
        Distribution
        """
        X = self._checked(X)
        return self._fitted().predict_dist(X, self._flat)

    def predict_quantiles(self, X: Any, quantiles: Sequence[float] = (0.025, 0.5, 0.975)) -> np.ndarray:
        """Predict quantiles of y.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Inputs.
        quantiles : sequence of L floats, default=(0.025, 0.5, 0.975)
            Levels between 0 and 1.

        Returns
        -------
        ndarray of shape (N, L) or (N, P, L)
        """
        return self.predict_dist(X).quantile(np.atleast_1d(np.asarray(quantiles, np.float64)))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: int | None = 0) -> np.ndarray:
        """Draw y from the predictive distribution, independently for each row.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Inputs.
        n_samples : int, default=1
            Draws at each row.
        random_state : int or None, default=0
            Seed of the draws; None gives different draws each time.

        Returns
        -------
        ndarray of shape (N, n_samples) or (N, P, n_samples)
        """
        return np.moveaxis(self.predict_dist(X).sample(n_samples, random_state), 0, -1)

    def _own_state(self) -> dict[str, Any]:
        return {"flat": bool(self._flat)}

    def _take_state(self, about: dict[str, Any]) -> None:
        self._flat = bool(about["flat"])
        if self.transform_.classes:
            raise ValueError("it has classes")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


class Classifier(ClassifierMixin, Estimator):
    """A classification model as a scikit-learn estimator; labels may be numbers or text.

    None means the default of the model. A parameter that the model ignores is an error.

    Parameters
    ----------
    model : str, default="dgp2"
        A model as in ``dgpbench run model=...``.
    overrides : str or sequence of str, default=()
        Further settings as on the command line, e.g. ``"model.ard=false"``.
    seed : int, default=0
        Seed of initial values, minibatches and samples.
    num_inducing : int or float, default=None
        Inducing points per layer; below 1 a share of the training rows.
    layers : int or sequence of str, default=None
        Number of GP layers, or their kinds, e.g. ``["lv", "gp"]``.
    kernel : str, default=None
        Kernel, e.g. ``"matern52"`` or ``"rbf+linear"``.
    likelihood : str, default=None
        Likelihood, e.g. ``"softmax"`` or ``"robustmax"``.
    inference : str, default=None
        Inference method, e.g. ``"dsvi"``.
    steps : int, default=None
        Training steps; iterations of L-BFGS or trajectories for models trained by these.
    learning_rate : float, default=None
        Step size of Adam.
    batch_size : int, default=None
        Rows of a minibatch.
    verbose : bool, default=False
        Show progress.

    Attributes
    ----------
    classes_ : ndarray of shape (C,)
        Labels in ascending order.
    history_ : pandas.DataFrame
        Training curve: `step`, `seconds` since the start (compilation included) and `bound`. Empty for
        models in closed form.
    config_ : dict
        All settings.
    notes_ : list of str
        Notes of the training.
    n_features_in_ : int
        Number of inputs.

    Examples
    --------
    >>> import dgpbench, numpy as np
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = dgpbench.Classifier("logistic").fit(X, np.where(X[:, 0] > 0, "up", "down"))
    >>> model.predict([[-0.9], [0.9]]).tolist()
    ['down', 'up']
    """

    def fit(self, X: Any, y: Any) -> Classifier:
        """Train the model.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Inputs.
        y : array-like of shape (N,)
            Labels of at least two classes.

        Returns
        -------
        Classifier
            The estimator itself.

        Raises
        ------
        UserError
            If a setting is invalid, does not apply to the model, or does not fit the classes.
        ValueError
            If X or y has the wrong shape, X contains NaN or infinity, or y has one class.
        """
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
        """Predict class probabilities.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Inputs.

        Returns
        -------
        ndarray of shape (N, C)
            Columns are in the order of `classes_`.
        """
        return self.distribution(X).probs

    def predict(self, X: Any) -> np.ndarray:
        """Predict the most probable class.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Inputs.

        Returns
        -------
        ndarray of shape (N,)
        """
        probs = self.predict_proba(X)
        return self.classes_[probs.argmax(1)]

    def _own_state(self) -> dict[str, Any]:
        return {"classes": self.classes_.tolist(), "dtype": self.classes_.dtype.str}

    def _take_state(self, about: dict[str, Any]) -> None:
        kind = np.dtype(about["dtype"])
        self.classes_ = np.array(about["classes"], dtype=kind)
        if tuple(str(label) for label in self.classes_) != self.transform_.classes:
            raise ValueError("its classes do not fit its labels")
