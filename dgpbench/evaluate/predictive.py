"""What every metric needs of a model and nothing more: a predictive distribution per test point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dgpbench.evaluate import mixture

Array = Any  # np.ndarray, or None in a kind that has no such array


@dataclass(frozen=True)
class Predictive:
    """A predictive distribution at N points, of exactly one kind:

    - mixture: mean, var (S, N, P), Gaussians with the likelihood noise included in var. Equally weighted
      samples; or, with log_weights (S, N), a mixture that is exact as it stands (exp sums to one over S);
    - draws: draws (S, N, P) of y, for models without a density; with `rates` (S, N, P), the Poisson rates for
      a unit of length or area that they come from;
    - probs: probs (N, C), class probabilities.
    """

    mean: Array = None
    var: Array = None
    log_weights: Array = None
    draws: Array = None
    probs: Array = None
    rates: Array = None

    FIELDS: ClassVar[tuple[str, ...]] = ("mean", "var", "log_weights", "draws", "probs", "rates")
    KINDS: ClassVar[tuple[tuple[str, ...], ...]] = (
        *(("mean", "var"), ("mean", "var", "log_weights")),
        *(("draws",), ("draws", "rates"), ("probs",)),
    )

    def __post_init__(self) -> None:
        given = tuple(f for f in self.FIELDS if getattr(self, f) is not None)
        if given not in self.KINDS:
            got = ", ".join(given) or "nothing"
            raise ValueError(
                f"Predictive takes mean and var (and log_weights), or draws (and rates), or probs; got {got}"
            )
        for name in given:
            array = np.asarray(getattr(self, name), dtype=np.float64)
            shape = {"probs": "(N, C)", "log_weights": "(S, N)"}.get(name, "(S, N, P)")
            if array.ndim != shape.count(",") + 1 or array.shape[1 if name == "probs" else 0] == 0:
                raise ValueError(f"Predictive: {name} must have shape {shape}, got {array.shape}")
            object.__setattr__(self, name, array)
        if self.mean is not None and self.mean.shape != self.var.shape:
            raise ValueError(f"Predictive: mean {self.mean.shape} and var {self.var.shape} differ in shape")
        if self.log_weights is not None and self.log_weights.shape != self.mean.shape[:2]:
            raise ValueError(
                f"Predictive: log_weights {self.log_weights.shape} must be {self.mean.shape[:2]} as in mean"
            )

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
    def gaussian(self) -> bool:
        """Is every output of every point one Gaussian?"""
        return self.kind == "mixture" and self.num_components == 1

    @property
    def num_points(self) -> int:
        return len(self.probs) if self.probs is not None else self._values.shape[1]

    @property
    def weights(self) -> Array:
        """The components' weights (S, N); None where they are equal."""
        return None if self.log_weights is None else np.exp(self.log_weights)

    def problem(self) -> str | None:
        """Why these numbers cannot be scored, or None: non-finite values, variances that are not positive,
        weights or class probabilities that do not sum to one."""
        for name in self.FIELDS:
            array = getattr(self, name)
            if name == "log_weights":
                continue  # a weight may be zero
            if array is not None and (bad := np.count_nonzero(~np.isfinite(array))):
                return f"predictive {name} is not finite in {bad} of {array.size} entries"
        if self.var is not None and (bad := np.count_nonzero(self.var <= 0)):
            return f"predictive variance is not positive in {bad} of {self.var.size} entries"
        if self.log_weights is not None:
            total = self.weights.sum(0)
            if bad := np.count_nonzero(~(np.abs(total - 1.0) < 1e-6)):
                return f"predictive weights do not sum to one at {bad} of {len(total)} points"
        if self.probs is not None:
            wrong = (self.probs < 0).any(1) | ~(np.abs(self.probs.sum(1) - 1.0) < 1e-6)
            if bad := np.count_nonzero(wrong):
                return f"class probabilities are negative or do not sum to 1 at {bad} of {len(wrong)} points"
        return None

    def _average(self, values: np.ndarray) -> np.ndarray:
        return mixture.average(values, None if self.log_weights is None else self.weights[:, :, None])

    def mixture_mean(self) -> np.ndarray:
        """Mean of the mixture (N, P)."""
        return self._average(self._values)

    def mixture_sd(self) -> np.ndarray:
        """Standard deviation of the mixture (N, P): mean variance plus variance of the means."""
        if self.log_weights is not None:
            return np.sqrt(self._average(self.var + (self.mean - self.mixture_mean()) ** 2))
        spread = self._values.var(0)
        return np.sqrt(spread if self.var is None else spread + self.var.mean(0))

    def log_density(self, Y: np.ndarray) -> np.ndarray:
        """log p(y_n) (N,), exact given the components; outputs are independent given the component."""
        if self.kind != "mixture":
            raise ValueError(f"a predictive of kind {self.kind} has no exact density")
        return mixture.log_density(mixture.component_logpdf(self.mean, self.var, Y), self.log_weights)

    def draw(self, n: int, seed: int, first_row: int = 0) -> np.ndarray:
        """n draws of y (n, N, P).

        Draw i comes from component floor(i S / n): every component is used evenly, none is left to chance.
        The noise of a point depends on (seed, first_row + its position) only, so that points taken in
        chunks get the same draws as all at once. Draws that are stored already are thinned in the same
        way; there must be at least n of them. With weights, component s of a point gives n w_s draws, rounded
        up or down: its n positions (i + u) / n in the cumulative weights share one uniform u.
        """
        rows = np.arange(first_row, first_row + self.num_points)
        return np.ascontiguousarray(self.draw_rows(n, seed, rows).transpose(1, 0, 2))

    def draw_rows(self, n: int, seed: int, rows: np.ndarray) -> np.ndarray:
        """The same draws, those of a point together (N, n, P), for points at the positions `rows` (N,)."""
        values = self._values.transpose(1, 0, 2)
        N, S, P = values.shape
        which = np.arange(n) * S // n
        if self.var is None:
            if S < n:
                raise ValueError(f"{n} draws asked for, {S} stored")
            return values[:, which]
        draws = np.empty((N, n, P))
        offset = np.empty(N)
        noise = RowNoise(seed)
        for i in range(N):
            stream = noise.of(int(rows[i]))
            stream.standard_normal(out=draws[i])
            if self.log_weights is not None:
                offset[i] = stream.random()
        sd = np.sqrt(self.var).transpose(1, 0, 2)
        if self.log_weights is None:
            if n % S:
                draws *= sd[:, which]
                draws += values[:, which]
            else:  # each component has its draws side by side
                each = draws.reshape(N, S, n // S, P)
                each *= sd[:, :, None]
                each += values[:, :, None]
            return draws
        which = self.components_at((np.arange(n)[:, None] + offset) / n).T[:, :, None]  # N, n, 1
        draws *= np.take_along_axis(sd, which, 1)
        draws += np.take_along_axis(values, which, 1)
        return draws

    def components_at(self, positions: np.ndarray) -> np.ndarray:
        """The components (n, N) in which positions (n, N) in [0, 1) of the cumulative weights lie."""
        cumulative = np.cumsum(self.weights, axis=0)
        cumulative /= cumulative[-1]
        pairs = zip(cumulative.T, positions.T, strict=True)
        found = np.stack([np.searchsorted(c, p, side="right") for c, p in pairs], axis=1)
        return np.minimum(found, self.num_components - 1)  # a position may round to 1

    def rescale(self, y_mean: np.ndarray, y_std: np.ndarray) -> Predictive:
        """The same distribution of y * y_std + y_mean."""
        shift, scale = np.reshape(y_mean, -1), np.reshape(y_std, -1)
        if self.var is None:
            return Predictive(draws=self._values * scale + shift)
        return Predictive(
            mean=self.mean * scale + shift, var=self.var * scale**2, log_weights=self.log_weights
        )


class RowNoise:
    """The random streams of test rows: counter-based, so that those of different rows never meet."""

    def __init__(self, seed: int) -> None:
        self.philox = np.random.Philox(key=seed)
        self.generator, self.state = np.random.Generator(self.philox), self.philox.state  # a copy

    def of(self, row: int) -> np.random.Generator:
        """The stream Philox(key=seed, counter=row << 64), from its beginning; good until the next is asked
        for. To set the counter takes a fifth of the time of a new generator."""
        self.state["state"]["counter"] = np.array([0, row, 0, 0], dtype=np.uint64)
        self.philox.state = self.state
        return self.generator


def pooled(parts: Sequence[Predictive]) -> Predictive:
    """The equally weighted average of predictive distributions of one kind and size, without log_weights."""
    if parts[0].probs is not None:
        return Predictive(probs=np.mean([part.probs for part in parts], 0))
    if parts[0].draws is not None:
        rates = None if parts[0].rates is None else np.concatenate([part.rates for part in parts])
        return Predictive(draws=np.concatenate([part.draws for part in parts]), rates=rates)
    return Predictive(
        mean=np.concatenate([part.mean for part in parts]), var=np.concatenate([part.var for part in parts])
    )
