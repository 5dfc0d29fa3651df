"""Base classes of inference: a method is a bound, an update, and the fields that configure them.

    Method   one class in one file, named by `inference._target_` of its yaml: its fields, what it refuses,
             and how it makes the other two
    Bound    an objective: pure functions of values, data and noise. Every batch bound has the shape
             weight * sum_n terms_n - penalty
    Whole    an objective that is one function of everything: networks, collapsed bounds
    Update   one training step, given an oracle of the objective's value and gradients

Points are columns: X (D, B), Y (P, B). Nothing here imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from dgpbench.config.schema import Field
from dgpbench.gp.lazy import lazy

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    from dgpbench.gp import deep_gp
    from dgpbench.gp.deep_gp import DeepGP
    from dgpbench.gp.parameters import Constraint

    Values = Mapping[str, tf.Tensor]
    Gradients = dict[str, tf.Tensor]
    Pairs = dict[int, tuple[tf.Tensor, tf.Tensor]]
else:
    deep_gp = lazy("dgpbench.gp.deep_gp")


class Batch(NamedTuple):
    """Minibatch of a step, in rows: X (B, D), Y (B, P), and `rows` (B,), their training rows."""

    X: tf.Tensor
    Y: tf.Tensor
    step: tf.Tensor
    rows: tf.Tensor | None


class Oracle(Protocol):
    """The objective of a training step, evaluated by an update."""

    trainable: list[str]  # parameters that may move
    raw: dict[str, tf.Variable]  # unconstrained parameters
    slots: dict[str, tf.Variable]  # state of the update
    rates: dict[str, tf.Variable]  # numbers that its steps depend on
    num_data: tf.Variable  # N
    jitter: tf.Variable

    def __call__(
        self,
        batch: Batch,
        names: Sequence[str],
        natural: Sequence[int] = (),
        draw: int = 0,
        replaced: Values | None = None,
    ) -> tuple[tf.Tensor, Gradients, Pairs]:
        """Return the objective at the raw values, its gradient in `names`, and for each `natural` layer the
        data part of (dL/dm, dL/dS), without the KL.

        `replaced` gives values to use instead of the raw ones. `draw` chooses the noise.
        """

    def full_batch(self, step) -> Batch:
        """Return all training rows."""

    def of(self, bound: Bound) -> Oracle:
        """Return the same variables under another bound, for an update in phases."""

    def fused(self, function: Callable) -> Callable:
        """Return `function(oracle, *tensors)` as a function of the tensors.

        It is one XLA program where the form of every layer allows that. The oracle that it receives is valid
        inside the function only.
        """

    def key(self, batch: Batch, stream: int) -> tf.Tensor:
        """Return the seed of an update's stateless random numbers, from the run's seed, step and stream."""


class Numerics(NamedTuple):
    """How precisely a bound is computed. The engine sets it, in the same way for every bound."""

    jitter: tf.Tensor
    forms: Sequence[str] | None = None  # of each layer's batch part; None: the one that is always safe
    batch_dtype: Any = None  # precision of the batch part; None: that of the values
    natural: Sequence[int] = ()  # layers whose m and S are to have gradients
    num_data: tf.Tensor | None = None  # N in training; None: q itself is wanted, for prediction
    compiled: bool = False  # XLA takes the M x M part too


@dataclass(frozen=True)
class Bound:
    """Base class for deep GP training objectives.

    Subclasses must implement `terms`. Instances are frozen so that compiled training steps can be reused.
    `terms` returns `samples` Monte Carlo samples per row, S B entries, which are averaged.
    """

    model: DeepGP
    samples: int = 1
    whole: ClassVar[bool] = False
    evaluations: ClassVar[int] = 2  # of one step that have noise of their own
    drawn_numbers: ClassVar[int] = 0  # that `prepare` makes anew for each sample
    column_numbers: ClassVar[int] = 0  # of a column, in arrays larger than those of inputs, noise and targets
    draws: ClassVar[int] = 1  # times that prediction prepares, where `prepare` draws from q
    whitened: ClassVar[bool] = True  # q(u) is relative to the prior, so that its KL depends on q alone
    exact: ClassVar[bool] = False  # the batch part is in float64 also under precision=mixed

    @property
    def columns(self) -> int:
        """Number of columns that pass through the layers for each row of a minibatch."""
        return self.samples

    @property
    def noise_columns(self) -> int:
        """Standard normals for each row of a minibatch and each of the noise dimensions."""
        return self.columns

    @property
    def repeats(self) -> int:
        """Entries of `terms` for each row."""
        return self.samples

    noise_dim = property(lambda self: self.model.noise_dim)
    input_dim = property(lambda self: self.model.input_dim)
    target_dim = property(lambda self: self.model.target_dim)

    @property
    def predictive_noise(self) -> int:
        """Standard normals for each point and sample of a prediction; with 0, one sample is exact."""
        return self.noise_dim

    @property
    def tallest(self) -> int:
        """Rows of the tallest array with a column for each column of the batch, which limits chunk sizes."""
        return max(self.model.layers[i].num_inducing for i in self.model.gps)

    @property
    def divisible(self) -> bool:
        """Whether the rows of a batch may pass through the batch part in chunks."""
        return True

    @property
    def compiles(self) -> bool:
        """Whether XLA compiles the batch part."""
        return True

    def initial(self, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return initial values of all parameters from those of a mean-field q: q_mu (P, M) and q_sqrt
        (P, M, M) of each layer.

        A bound with other parameters keeps q_mu, because its shape gives the structure of a stored run.
        """
        return values

    def row_values(
        self, values: Mapping[str, np.ndarray], X: np.ndarray, num_data: int
    ) -> dict[str, np.ndarray]:
        """Return initial values of parameters per training row; X (N, D) may be a sample of the rows."""
        return {}

    def on_rows(self, values: Mapping[str, np.ndarray], X: np.ndarray) -> Bound:
        """Return the same bound for these initial values and training rows X (N, D), all used in every step.

        A bound that is cheaper for such rows, for example on a grid, returns that form of itself.
        """
        return self

    def constraints(self) -> dict[str, Constraint]:
        """Return the constraints of the parameters that are not free, by name."""
        return self.model.constraints()

    def forms(self, batch: int, exact: bool) -> tuple[str, ...] | None:
        """Return the cheapest form of each layer's batch part (gp/fast/forms.py) for `batch` rows.

        With `exact` the batch part is in float64.
        """
        model = self.model
        spread = self.columns if model.latent else self.samples
        before = batch * self.samples  # columns in front of the first latent layer

        def form(i: int) -> str:
            if i not in model.gps:
                return "white"
            layer, behind = model.layers[i], model.latent and i > model.latent[0]
            columns = batch * spread if behind else before
            return layer.form(columns, exact)

        return tuple(form(i) for i in range(len(model.layers)))

    def prepare(self, values: Values, numerics: Numerics, key=None, rows=None) -> tuple[Any, Pairs]:
        """Return the M x M part, as `terms` reads it, and m and S - I of each layer in `numerics.natural`.

        `key` (2,) seeds a bound that draws here. `rows` are the training rows of the batch.
        """
        return deep_gp.prepare(
            self.model,
            values,
            numerics.jitter,
            numerics.forms,
            numerics.batch_dtype or next(iter(values.values())).dtype,
            rows,
            numerics.natural,
            self.posterior(values, numerics),
            numerics.compiled,
        )

    def posterior(self, values: Values, numerics: Numerics) -> Mapping[int, Any] | None:
        """Return gp.propagation.Whitened of each GP layer; None stands for their own q_mu and q_sqrt."""
        return None

    def terms(self, prepared: Any, X, Y, noise, start) -> tf.Tensor:
        """Return each column's part of the bound (repeats B,); `start` is the first column's position."""
        raise NotImplementedError

    def own_gradient(self) -> Callable | None:
        """Return a function (prepared, X, Y, noise, start, weight) -> value, gradient; None for autodiff."""
        return None

    def penalty(self, values: Values, prepared: Any, numerics: Numerics) -> dict[int, tf.Tensor]:
        """Return the part of the bound that belongs to no point, by layer; it is subtracted."""
        return deep_gp.penalties(self.model, values)

    def moments(self, prepared: Any, X, noise, w=(), K: int = 1, joint: bool = True, repeat: int = 1):
        """Return mean and variance (P, K C) of the last layer's GPs given one sample of the inner layers."""
        return deep_gp.propagate(self.model, prepared, X, noise, w, K, joint, repeat)

    def layers(self, prepared: Any) -> Mapping[str, Any]:
        """Return the layers by name from what `prepare` made for prediction."""
        return prepared

    def noise_variance(self, prepared: Any, X) -> tf.Tensor:
        """Return the variance of Gaussian noise at the columns of X (D, C)."""
        return prepared["likelihood"]["variance"]

    def checks(self, prepared: Any, X, Y, seed: int) -> tuple[dict[str, dict[str, float]], list[str]]:
        """Check the numerics after training; return facts and notes. X (D, N), Y (P, N) are training rows."""
        return {}, []


@dataclass(frozen=True)
class Whole:
    """An objective that is one function of its values and a batch, under a plain tape."""

    whole: ClassVar[bool] = True
    evaluations: ClassVar[int] = 1
    samples: int = 1

    @property
    def columns(self) -> int:
        return self.samples

    noise_columns = repeats = columns

    def constraints(self) -> dict[str, Constraint]:
        return {}

    def terms(self, values: Values, X, Y, noise) -> tf.Tensor:
        """Return each column's part of the objective; its sum times N / (B S) is maximised."""
        raise NotImplementedError


# ---- one step -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Update:
    """Base class of training steps.

    Fields decide which step is compiled. Numbers that runs can change without a new compilation are `rates`.
    """

    rates: ClassVar[tuple[str, ...]] = ()  # names of the numbers that `Method.rates` gives
    host: ClassVar[bool] = False  # steps are Python, not part of a compiled block (updates/linesearch.py)
    needs_all_rows: ClassVar[str] = ""  # the setting that takes no minibatches, for the message that says so
    reduced = ""  # note for the user where a setting cannot be met in full

    def slots(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the state in a checkpoint, zero at first; `shapes` are the trained ones."""
        return {}

    def step(self, oracle: Oracle, batch: Batch) -> tuple[tf.Tensor, Any]:
        """Advance raw values and slots in place; return the objective and how many steps were refused."""
        raise NotImplementedError

    def incomplete(self, steps: int) -> str | None:
        """Return why training that ended after `steps` steps has no result; None if it has one."""
        return None

    def draws(self, slots: Mapping[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
        """Return kept draws of raw parameters (draws, *shape); without any, the values are the result."""
        return {}

    def facts(self, slots: Mapping[str, np.ndarray], steps: int) -> dict[str, dict[str, float]]:
        """Return facts for the record's checks, such as how well chains mix."""
        return {}


# ---- a method -------------------------------------------------------------------------------------------


class Method:
    """Base class of ways to train a GP model.

    `fields` are its settings in addition to those of every method (config/schema.py); dotted names are
    sections. Configs are checked with it, so that it reads no data and imports nothing heavy until `bound` or
    `update` is called.
    """

    fields: ClassVar[Mapping[str, Field]] = {}
    direct_q: ClassVar[bool] = False  # whether it supports model.whiten=false
    takes_priors: ClassVar[bool] = False  # whether it uses `model.priors`

    def __init__(self, cfg: Mapping[str, Any]):
        self.cfg = cfg
        self.settings: Mapping[str, Any] = cfg["inference"]

    def precision(self, model: Mapping[str, Any]) -> str:
        """Return the precision in which this method trains a model unless the user sets one."""
        return "mixed"

    def scaled(self, steps: int | None) -> dict[str, Any]:
        """Return values for own fields that are null in the config and follow from the number of steps."""
        return {}

    def schedule(self) -> str:
        """Return the phases of a sampler for the printed plan; empty for other methods."""
        return ""

    def refuses(self, model: Mapping[str, Any], likelihood: str) -> str | None:
        """Return why this method cannot train this GP model (its config section, which has `layers`) with
        this likelihood, and what fits; None if it can."""
        return None

    def refuses_network(self, name: str) -> str | None:
        """Return why this method cannot train the network `name`, and what fits; None if it can."""
        own = self.settings["name"]
        return f"inference={own} is for GP models and model={name} is a network; use inference=adam or dsvi"

    def refuses_levels(self, name: str) -> str | None:
        """Return why this method cannot train the multi-fidelity model `name`; None if it can."""
        return (
            f"inference={self.settings['name']} is not for model={name}, which has a variational bound of "
            "its own; use inference=fast, dsvi, adam, ngd_adam or ngd_all"
        )

    def bound(self, model: DeepGP) -> Bound:
        raise NotImplementedError

    def update(self, bound: Bound) -> Update:
        raise NotImplementedError

    def rates(self) -> dict[str, float]:
        """Return the numbers that the update's `rates` name."""
        return {}
