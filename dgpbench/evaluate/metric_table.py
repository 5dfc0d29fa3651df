"""How a metric is declared, computed and found. The metrics themselves are in metrics.py.

The arguments of a metric's function name what it needs (`Inputs`), so that one function scores a run, and
scores it again from its stored predictions.

    @metric("test_mae", "Test mean absolute error", better="lower", tasks=("regression", "counts"))
    def mean_absolute_error(y, mean):
        return np.abs(y - mean).mean()
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from dgpbench.config import plugins
from dgpbench.config.schema import NUMBERS
from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import ModelError, UserError, message, source_of

NAT = "nat per test point"
CLASSES = ("binary", "multiclass")
IMAGES = "images"  # regression on images, which has metrics of its own
KINDS = (*NUMBERS, *CLASSES, IMAGES)
HIGHER, LOWER = "higher", "lower"
ANY, SHARE, NOT_NEGATIVE = (-math.inf, math.inf), (0.0, 1.0), (0.0, math.inf)
HOME = "dgpbench.evaluate.metrics"
LOGLIK = "test_loglik"  # compared unless another metric is asked for
Inputs = Mapping[
    str, Any
]  # what a metric may need, by name: see docs/add-kernel-likelihood-metric-dataset.md


@dataclass(frozen=True)
class Metric:
    """Name, meaning and inputs of a metric.

    Parameters
    ----------
    name : str
        Name in records. Metrics of test rows begin with ``test_``.
    title : str
        Name in tables and figures.
    units : str
    better : {"higher", "lower"}, optional
        None if neither direction is better.
    ratio : bool
        In the data's own units: tests compare its logarithms.
    tasks : tuple of str
        Tasks with this metric: regression, counts, binary, multiclass, images.
    required : tuple of str
        Tasks whose finished runs always have the metric.
    span : (float, float)
        Range.
    positive : bool
        Whether 0 is outside the range.
    short : str
        Name in the output of a run.
    usual : bool
        Whether `show` prints it unless other metrics are asked for.
    estimator : tuple of str
        Fields of the protocol that decide how well it is estimated.
    generated : bool
        Only of generated data, whose density is known.
    function : callable, optional
        Its arguments name the inputs. None: the metric comes from elsewhere.
    """

    name: str
    title: str
    units: str = ""
    better: str | None = None
    ratio: bool = False
    tasks: tuple[str, ...] = KINDS
    required: tuple[str, ...] = ()
    span: tuple[float, float] = ANY
    positive: bool = False
    short: str = ""
    usual: bool = False
    estimator: tuple[str, ...] = ("test_samples", "draws")
    generated: bool = False
    function: Callable[..., Any] | None = None

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the inputs."""
        code = getattr(self.function, "__code__", None)
        return code.co_varnames[: code.co_argcount] if code else ()

    def __call__(self, inputs: Inputs) -> float | None:
        """Return the value; None without one of the inputs."""
        assert self.function is not None
        values = [inputs.get(name) for name in self.needs]
        if any(value is None for value in values):
            return None
        found = self.function(*values)
        try:
            return None if found is None else float(found)
        except (TypeError, ValueError):
            text = f"metric {self.name} returned a {type(found).__name__}, expected a number or None"
            raise ModelError(f"{source_of(self.function)}{text}") from None


METRICS: dict[str, Metric] = {}


def metric(
    name: str,
    title: str,
    *,
    units: str = "",
    both_units: bool = False,
    better: str | None = None,
    tasks: Sequence[str] = NUMBERS,
    required: Sequence[str] | None = None,
    **more: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the metric that a function computes.

    Parameters
    ----------
    name, title, units, better, tasks
        As in `Metric`.
    required : sequence of str, optional
        Tasks whose finished runs always have the metric; by default all of its tasks.
    both_units : bool, default=False
        Compute it in original units and, as `name`_std, in standardised units.
    **more
        Other fields of `Metric`.

    Raises
    ------
    UserError
        If a field has a value that means nothing.
    """
    if better not in (HIGHER, LOWER, None):
        raise UserError(f"metric {name}: better={better!r} is not allowed; use 'higher', 'lower' or None")
    if unknown := [task for task in tasks if task not in KINDS]:
        raise UserError(f"metric {name}: unknown task {unknown[0]!r}; tasks are {', '.join(KINDS)}")
    if wrong := [field for field in more if field not in Metric.__dataclass_fields__]:
        raise UserError(f"metric {name}: unknown field {wrong[0]!r}{did_you_mean(wrong[0], METRIC_FIELDS)}")

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        always = tuple(tasks if required is None else required)
        own = Metric(
            name, title, units, better, tasks=tuple(tasks), required=always, function=function, **more
        )
        if both_units:
            begin = f"{units}, " if units else ""
            _add(replace(own, units=f"{begin}original units"))
            some, always = (tuple(t for t in kinds if t not in CLASSES) for kinds in (own.tasks, always))
            scaled = replace(own, name=f"{name}_std", units=f"{begin}standardised units", usual=False)
            _add(replace(scaled, tasks=some, required=always))
        else:
            _add(own)
        return function

    return declare


METRIC_FIELDS = tuple(Metric.__dataclass_fields__)


def _add(own: Metric) -> None:
    """Add a metric. A module that is imported again may declare its metrics again."""
    held = METRICS.get(own.name)
    modules = [getattr(m.function, "__module__", HOME) for m in (held, own) if m]
    if held and modules[0] != modules[1]:
        raise UserError(f"there is a metric {own.name} already, in {modules[0]}; rename yours")
    METRICS[own.name] = own


def reported(name: str, title: str, units: str = "", better: str | None = None, **more: Any) -> str:
    """Declare a metric that a model reports; return its name."""
    _add(Metric(name, title, units, better, **more))
    return name


def known_metrics(config_dirs: Sequence[str] | None = None) -> dict[str, Metric]:
    """Return the metrics by name: built in, of installed packages, and of `config_dirs`.

    None means every folder that this process has used.
    """
    import_module(HOME)
    own = plugins.own_entries("metric", config_dirs)
    for entry in own.values():
        plugins.load(entry)
    names = {*own, *(f"{name}_std" for name in own)}
    return {name: found for name, found in METRICS.items() if name in names or built_in(found)}


def compute(
    kind: str,
    inputs: Inputs,
    standardised: Inputs,
    config_dirs: Sequence[str] = (),
    note: Callable[[str], None] = lambda text: None,
) -> dict[str, float | None]:
    """Return the metrics of a task by name; None where one does not apply.

    A user's metric that fails is None, with a note: it must not cost a trained model.
    """
    found: dict[str, float | None] = {}
    for name, own in known_metrics(config_dirs).items():
        given = standardised if name.endswith("_std") else inputs
        if own.function is None or kind not in own.tasks:
            continue
        if own.generated and any(given.get(need) is None for need in own.needs):
            continue
        if built_in(own):
            found[name] = own(given)
            continue
        try:
            found[name] = own(given)
            if (value := found[name]) is not None and not math.isfinite(value):
                raise ModelError(f"{source_of(own.function)}metric {name} is {value}")
        except Exception as error:  # noqa: BLE001 - a user's function may raise anything
            what = "" if isinstance(error, ModelError) else f"{source_of(own.function)}metric {name} raised "
            what += "" if isinstance(error, ModelError) else f"{type(error).__name__}: "
            note(f"{what}{message(error)}; it is left empty, dgpbench rescore computes it again")
            found[name] = None
    return found


def built_in(own: Metric) -> bool:
    """Return whether a metric is of this module."""
    return getattr(own.function, "__module__", HOME) == HOME


def find_metric(name: str, recorded: Iterable[str] = ()) -> Metric:
    """Return the metric of a name, with or without `test_`; UserError names the nearest known one."""
    recorded, table = list(recorded), known_metrics()
    for full in (name, f"test_{name}"):
        if full in table:
            return table[full]
        if full in recorded:
            return Metric(full, full)
    known = {*table, *recorded}
    hint = did_you_mean(name, known) or did_you_mean(name, {full.removeprefix("test_") for full in known})
    hint = hint or "; such as loglik, rmse, crps, accuracy"
    raise UserError(f"no metric '{name}'{hint}")


def check_task(chosen: Metric, dataset: str, task: str) -> None:
    """Raise UserError if runs on a dataset of this task never have the metric."""
    numbers = task in NUMBERS
    if all((own in CLASSES) == numbers for own in chosen.tasks):
        what = "classes" if numbers else "quantities"
        rest = "loglik, rmse, crps" if numbers else "loglik, accuracy, brier, ece"
        raise UserError(
            f"{chosen.name} is a metric of {what}, and the task of {dataset} is {task}; use {rest}"
        )


def unit_words(chosen: Metric, tasks: Iterable[str]) -> str:
    """Return the units, as they are for classes: probabilities have no others."""
    tasks = set(tasks)
    if not chosen.name.startswith(LOGLIK) or tasks <= set(NUMBERS):
        return chosen.units
    mixed = tasks & set(NUMBERS)
    return f"{chosen.units}; of classes log probability" if mixed else f"{NAT}, log probability of the class"
