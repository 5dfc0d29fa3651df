"""What every metric needs of a model and nothing more: a predictive distribution per test point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dgpbench.evaluate.mixture import component_logpdf, log_mean_exp


@dataclass(frozen=True)
class Predictive:
    """A predictive distribution at N points, of exactly one kind:

    - mixture: mean, var (S, N, P), equally weighted Gaussians, likelihood noise included in var;
    - draws: draws (S, N, P) of y, for models without a density;
    - probs: probs (N, C), class probabilities.
    """

    mean: np.ndarray | None = None
    var: np.ndarray | None = None
    draws: np.ndarray | None = None
    probs: np.ndarray | None = None

    FIELDS: ClassVar[tuple[str, ...]] = ("mean", "var", "draws", "probs")

    def __post_init__(self) -> None:
        given = tuple(f for f in self.FIELDS if getattr(self, f) is not None)
        if given not in (("mean", "var"), ("draws",), ("probs",)):
            got = ", ".join(given) or "nothing"
            raise ValueError(f"Predictive takes mean and var, or draws, or probs; got {got}")
        for name in given:
            array = np.asarray(getattr(self, name), dtype=np.float64)
            rank = 2 if name == "probs" else 3
            if array.ndim != rank or array.shape[0 if rank == 3 else 1] == 0:
                shape = "(N, C)" if rank == 2 else "(S, N, P)"
                raise ValueError(f"Predictive: {name} must have shape {shape}, got {array.shape}")
            object.__setattr__(self, name, array)
        if self.mean is not None and self.mean.shape != self.var.shape:
            raise ValueError(f"Predictive: mean {self.mean.shape} and var {self.var.shape} differ in shape")

    @property
    def kind(self) -> str:
        return "mixture" if self.mean is not None else "draws" if self.draws is not None else "probs"

    @property
    def _values(self) -> np.ndarray:  # S, N, P
        if self.probs is not None:
            raise ValueError("class probabilities have no mean, draws or density in y")
        return self.mean if self.mean is not None else self.draws

    @property
    def num_components(self) -> int:
        return self._values.shape[0]

    @property
    def num_points(self) -> int:
        return len(self.probs) if self.probs is not None else self._values.shape[1]

    def problem(self) -> str | None:
        """Why these numbers cannot be scored, or None: non-finite values, variances that are not positive."""
        for name in self.FIELDS:
            array = getattr(self, name)
            if array is not None and (bad := np.count_nonzero(~np.isfinite(array))):
                return f"predictive {name} is not finite in {bad} of {array.size} entries"
        if self.var is not None and (bad := np.count_nonzero(self.var <= 0)):
            return f"predictive variance is not positive in {bad} of {self.var.size} entries"
        return None

    def mixture_mean(self) -> np.ndarray:
        """Mean of the mixture (N, P)."""
        return self._values.mean(0)

    def mixture_sd(self) -> np.ndarray:
        """Standard deviation of the mixture (N, P): mean variance plus variance of the means."""
        spread = self._values.var(0)
        return np.sqrt(spread if self.var is None else spread + self.var.mean(0))

    def log_density(self, Y: np.ndarray) -> np.ndarray:
        """log p(y_n) (N,): log-mean-exp over components; outputs are independent given the component."""
        if self.kind != "mixture":
            raise ValueError(f"a predictive of kind {self.kind} has no exact density")
        return log_mean_exp(component_logpdf(self.mean, self.var, Y))

    def draw(self, n: int, seed: int, first_row: int = 0) -> np.ndarray:
        """n draws of y (n, N, P).

        Draw i comes from component floor(i S / n): every component is used evenly, none is left to chance.
        The noise of a point depends on (seed, first_row + its position) only, so that points taken in
        chunks get the same draws as all at once. Draws that are stored already are thinned in the same
        way; there must be at least n of them.
        """
        values = self._values
        S, N, P = values.shape
        which = np.arange(n) * S // n
        if self.var is None:
            if S < n:
                raise ValueError(f"{n} draws asked for, {S} stored")
            return values[which]
        noise = np.empty((N, n, P))
        for i in range(N):
            row_noise(seed, first_row + i).standard_normal(out=noise[i])
        return values[which] + np.sqrt(self.var)[which] * noise.transpose(1, 0, 2)

    def rescale(self, y_mean: np.ndarray, y_std: np.ndarray) -> Predictive:
        """The same distribution of y * y_std + y_mean."""
        shift, scale = np.reshape(y_mean, -1), np.reshape(y_std, -1)
        if self.var is None:
            return Predictive(draws=self._values * scale + shift)
        return Predictive(mean=self.mean * scale + shift, var=self.var * scale**2)


def row_noise(seed: int, row: int) -> np.random.Generator:
    """The random stream of one test row: counter-based, so that streams of different rows never meet."""
    return np.random.Generator(np.random.Philox(key=seed, counter=row << 64))
