"""Predictive distributions at new inputs, as objects with a density, a distribution function and draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dgpbench.errors import UserError
from dgpbench.evaluate import mixture
from dgpbench.evaluate.predictive import Predictive

Terms = Callable[[int, np.ndarray], "np.ndarray | None"]  # chunk, y (n, P): log densities (S, n)


@dataclass(frozen=True)
class Distribution:
    """The predictive distribution of y at N inputs, in original units and with the noise included.

    Under a Gaussian likelihood it is a mixture of Gaussians with one component for each sample of the inner
    layers, and all methods are exact for that mixture. Other likelihoods are represented by draws of y:
    moments, quantiles and the distribution function are those of the draws, and `log_prob` averages the
    likelihood over samples of the latent function. Given x, rows are independent of each other.

    Arrays have shape (N,), or (N, P) for P outputs.

    Examples
    --------
    >>> import dgpbench, numpy as np
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> dist = dgpbench.Regressor("linear").fit(X, X[:, 0]).predict_dist(X)
    >>> dist
    <Distribution at 20 inputs: mixture of 1 Gaussian>
    >>> dist.quantile([0.05, 0.95]).shape
    (20, 2)
    >>> bool(np.allclose(dist.cdf(dist.quantile(0.3)), 0.3))
    True
    """

    parts: tuple[Predictive, ...]  # of consecutive rows, in original units
    flat: bool = True  # arrays are (N,): there is one output, and y had one dimension
    terms: Terms | None = None  # the log density of distributions that are represented by draws

    def __repr__(self) -> str:
        rows = sum(part.num_points for part in self.parts)
        count = self.parts[0].num_components
        what = f"mixture of {count} Gaussian" if self.parts[0].kind == "mixture" else f"{count} draw"
        return f"<Distribution at {rows} inputs: {what}{'s' if count > 1 else ''}>"

    def mean(self) -> np.ndarray:
        """Return the mean of y.

        Returns
        -------
        ndarray of shape (N,) or (N, P)
        """
        return self._joined([part.mixture_mean() for part in self.parts])

    def std(self) -> np.ndarray:
        """Return the standard deviation of y.

        Returns
        -------
        ndarray of shape (N,) or (N, P)
        """
        return self._joined([part.mixture_sd() for part in self.parts])

    def log_prob(self, y: np.ndarray) -> np.ndarray:
        """Return the log density of y at each input; the log probability if y is discrete.

        Parameters
        ----------
        y : array of shape (N,) or (N, P), or a number
            Observations in original units. Several outputs of a row are scored jointly.

        Returns
        -------
        ndarray of shape (N,)

        Raises
        ------
        UserError
            If y has the wrong shape, or the model only draws samples and has no density.
        """
        found = []
        for index, (part, Y) in enumerate(self._with(y)):
            if part.kind == "mixture":
                found.append(part.log_density(Y))
                continue
            terms = self.terms(index, Y) if self.terms else None
            if terms is None:
                raise UserError("this model only draws samples of y; use cdf, quantile or sample instead")
            found.append(mixture.log_mean_exp(terms))
        return np.concatenate(found)

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """Return the probability that each output is at most y.

        Parameters
        ----------
        y : array of shape (N,) or (N, P), or a number
            Values in original units.

        Returns
        -------
        ndarray of shape (N,) or (N, P)
        """
        found = []
        for part, Y in self._with(y):
            if part.kind == "mixture":
                weights = None if part.weights is None else part.weights[:, :, None]
                found.append(mixture.cdf(part.mean, np.sqrt(part.var), Y, weights))
            else:
                found.append((part.draws <= Y).mean(0))
        return self._joined(found)

    def quantile(self, levels: float | Sequence[float] | np.ndarray) -> np.ndarray:
        """Return quantiles of each output.

        Parameters
        ----------
        levels : float or sequence of L floats
            Levels between 0 and 1.

        Returns
        -------
        ndarray of shape (N,) or (N, P) for one level, (N, L) or (N, P, L) for a sequence
        """
        wanted = check_levels(np.atleast_1d(np.asarray(levels, np.float64)))
        found = []
        for part in self.parts:
            if part.kind == "mixture":
                found.append(exact_quantiles(part, wanted))
            else:
                found.append(np.quantile(part.draws, wanted, axis=0).transpose(1, 2, 0))
        joined = self._joined(found, len(wanted))
        return joined if np.ndim(levels) else joined[..., 0]

    def sample(self, n: int = 1, seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Return independent draws of y.

        Parameters
        ----------
        n : int, default=1
            Number of draws at each input.
        seed : int, numpy Generator or None, default=None
            Seed of the draws; None gives different draws each time.

        Returns
        -------
        ndarray of shape (n, N) or (n, N, P)
        """
        if n < 1:
            raise UserError(f"n={n} is not allowed; draw at least one sample")
        rng = np.random.default_rng(seed)
        drawn = [_draws(part, n, rng) for part in self.parts]
        each = self._joined([draws.transpose(1, 2, 0) for draws in drawn], n)
        return np.moveaxis(each, -1, 0)

    def _with(self, y: np.ndarray) -> list[tuple[Predictive, np.ndarray]]:
        """Return each part with its rows of y, (n, P)."""
        N, P = sum(part.num_points for part in self.parts), self._outputs
        shape = (N,) if self.flat else (N, P)
        try:
            given = np.broadcast_to(np.asarray(y, np.float64), shape)
        except ValueError:
            raise UserError(f"y has shape {np.shape(y)}; expected {shape}") from None
        ends = np.cumsum([part.num_points for part in self.parts])[:-1]
        return list(zip(self.parts, np.split(given.reshape(N, P), ends), strict=True))

    @property
    def _outputs(self) -> int:
        return (self.parts[0].mean if self.parts[0].draws is None else self.parts[0].draws).shape[2]

    def _joined(self, arrays: list[np.ndarray], *more: int) -> np.ndarray:
        joined = np.concatenate(arrays)
        return joined[:, 0] if self.flat else joined


def check_levels(levels: np.ndarray) -> np.ndarray:
    """Return quantile levels; raise UserError unless they lie between 0 and 1."""
    if bad := [float(level) for level in levels if not 0 < level < 1]:
        raise UserError(f"quantile level {bad[0]:g} is not allowed; levels lie between 0 and 1, e.g. 0.95")
    return levels


def exact_quantiles(predictive: Predictive, levels: np.ndarray) -> np.ndarray:
    """Return the quantiles (N, P, L) of each output of a mixture."""
    S, N, P = predictive.mean.shape
    moments = predictive.mean, np.sqrt(predictive.var)
    mean, sd = (np.ascontiguousarray(array.reshape(S, N * P).T) for array in moments)
    weights = predictive.weights
    weights = None if weights is None else np.repeat(weights, P, axis=1).T
    return mixture.mixture_quantiles(mean, sd, weights, levels).reshape(N, P, -1)


def _draws(part: Predictive, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n independent draws (n, N, P): of a component and then of y, or of the stored draws."""
    S, N = part.num_components, part.num_points
    which = part.components_at(rng.random((n, N)))[:, :, None] if part.log_weights is not None else None
    if which is None:
        which = rng.integers(S, size=(n, N))[:, :, None]
    if part.kind == "draws":
        return np.take_along_axis(part.draws, which, 0)
    mean, sd = (np.take_along_axis(array, which, 0) for array in (part.mean, np.sqrt(part.var)))
    return mean + sd * rng.standard_normal(mean.shape)
