"""Fields of a composed config: their types and ranges, and every set of names that one may take.

Defaults are not here: they stand in conf/.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dgpbench.config.kernel_names import KernelError, canonical
from dgpbench.config.suggest import nearest
from dgpbench.errors import UserError

TASKS = ("regression", "binary", "multiclass", "counts")
NUMBERS = ("regression", "counts")  # tasks whose targets are no labels
SPLIT_RULES = ("shuffle", "published", "fixed_zero", "extrapolate", "cover")
SCALINGS = ("train", "all", "none")
LAYERS = ("gp", "lv", "linear", "warp", "align")
LAST_LAYER_FIXED = (
    *("width", "mean", "inner_noise", "inner_noise_trainable", "inner_q_scale"),
    *("inner_gps", "mixing_trainable", "inner_variance_trainable", "per_output"),
)


@dataclass(frozen=True)
class Field:
    """One field: its type, whether null is allowed, and its range (`above` is an open lower end)."""

    type: type
    null: bool = False
    low: float | None = None
    above: float | None = None
    high: float | None = None
    below: float | None = None
    choices: tuple = ()

    def describe(self) -> str:
        if self.choices:
            return (
                "one of "
                + ", ".join(show_value(c) for c in self.choices)
                + (", or null" if self.null else "")
            )
        word = {
            int: "a whole number",
            float: "a number",
            bool: "true or false",
            str: "text",
            list: "a list",
            dict: "a mapping",
        }[self.type]
        ends = (("at least", self.low), ("above", self.above), ("at most", self.high), ("below", self.below))
        limits = [f"{text} {show_value(value)}" for text, value in ends if value is not None]
        return word + (" " + " and ".join(limits) if limits else "") + (", or null" if self.null else "")

    def convert(self, value: Any) -> Any:
        """The value in its type; ValueError if it is not of that type or not in the range."""
        if value is None and self.null:
            return None
        if self.choices:
            for choice in self.choices:
                if value == choice and type(value) is type(choice):
                    return value
            raise ValueError
        if self.type is float and type(value) is int:
            value = float(value)
        if self.type is int and type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not self.type:
            raise ValueError
        if isinstance(value, int | float) and self.type in (int, float):
            inside = math.isfinite(value) and (self.low is None or value >= self.low)
            inside = inside and (self.above is None or value > self.above)
            inside = inside and (self.high is None or value <= self.high)
            if not inside or (self.below is not None and value >= self.below):
                raise ValueError
        if self.type is str and not value:
            raise ValueError
        return value


def show_value(value: Any) -> str:
    """A value as it is written on the command line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list):
        return "[" + ",".join(map(show_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k}:{show_value(v)}" for k, v in value.items()) + "}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _one_of(*choices: Any, null: bool = False) -> Field:
    return Field(str, null=null, choices=choices)


COUNT = Field(int, low=1)
COUNT_OR_NULL = Field(int, null=True, low=1)
POSITIVE = Field(float, above=0)
TEXT = Field(str)
SWITCH = Field(bool)
RATE = Field(float, above=0, high=1)
SEED = Field(int, low=0, high=2**31 - 1)

TOP: dict[str, Field] = {
    "experiment": Field(str, null=True),
    "tuned": Field(str, null=True),
    "split": Field(int, low=0),
    "seed": SEED,
    "precision": _one_of("float64", "mixed", "float32", "auto"),
    "device": _one_of("auto", "cpu", "gpu"),
    "threads": COUNT_OR_NULL,
}
DATASET = {"name": TEXT, "task": _one_of(*TASKS, "auto")}
LAUNCHER = {"name": TEXT}
TRACKERS: dict[str, dict[str, Field]] = {  # by name: its fields
    "none": {},
    "tensorboard": {},
    "mlflow": {"uri": Field(str, null=True), "experiment": TEXT, "artifacts": SWITCH},
    "wandb": {
        "project": TEXT,
        "entity": Field(str, null=True),
        "mode": _one_of("online", "offline", null=True),
        "folder": Field(str, null=True),
        "artifacts": SWITCH,
    },
}
MODEL: dict[str, Field] = {
    "_target_": TEXT,
    "name": TEXT,
    "layers": Field(list),
    "num_inducing": COUNT,
    "width": COUNT_OR_NULL,
    "max_width": COUNT_OR_NULL,
    "kernel": TEXT,
    "ard": SWITCH,
    "kernel_variance": POSITIVE,
    "lengthscale": POSITIVE,
    "mean": _one_of("auto", "identity", "pca", "zero", "linear_trained"),
    "per_output": _one_of("auto", "none", "kernel", "all"),
    "inner_noise": Field(float, low=0),
    "inner_noise_trainable": SWITCH,
    "inner_q_scale": POSITIVE,
    "latent_dim": COUNT,
    "latent_scale": Field(float, low=0),
    "inner_gps": COUNT_OR_NULL,
    "mixing_trainable": SWITCH,
    "inner_variance_trainable": SWITCH,
    "output_gps": COUNT_OR_NULL,
    "output_mixing": _one_of("principal", "pixels"),
    "mixing_lengthscale": POSITIVE,
    "output_mixing_trainable": SWITCH,
    "projection_dim": COUNT_OR_NULL,
    "projection_scale": POSITIVE,
    "use_inputs": SWITCH,
    "inducing": _one_of("kmeans", "grid"),
    "kronecker": SWITCH,
    "priors": Field(dict),
    "compat": _one_of("released", null=True),
    "start": _one_of("auto", "config", "data"),
    "likelihood_variance": POSITIVE,
    "likelihood_variance_trainable": SWITCH,
    "jitter": Field(float, null=True, above=0, below=1),
    "whiten": SWITCH,
    "layer_overrides": Field(dict),
    "closed_form": SWITCH,
    "own_training": SWITCH,
}
GP_REQUIRED = tuple(name for name in MODEL if name not in ("closed_form", "own_training"))
REQUIRED = {"dgpbench.models.gp.GPModel": GP_REQUIRED}  # fields that a model must have, by its target
_WHOLE_MODEL = (
    *("_target_", "name", "layers", "max_width", "likelihood_variance", "jitter", "layer_overrides"),
    *(
        "output_gps",
        "output_mixing",
        "mixing_lengthscale",
        "output_mixing_trainable",
        "likelihood_variance_trainable",
        "projection_dim",
        "projection_scale",
        "use_inputs",
        "compat",
        "start",
        "whiten",
        "inducing",
        "kronecker",
        "priors",
    ),
)
PER_LAYER = tuple(name for name in GP_REQUIRED if name not in _WHOLE_MODEL)
CLOSED: dict[str, dict[str, Field]] = {  # sections whose fields are exactly these
    "paths": {"results": TEXT, "datasets": TEXT, "mirror": Field(str, null=True), "config_dirs": Field(list)},
    "engine": {
        "block_seconds": POSITIVE,
        "checkpoint_seconds": POSITIVE,
        "memory_limit_gb": POSITIVE,
        "tensorboard": SWITCH,
        "trace_test": SWITCH,
        "chunk_rows": COUNT,
        "xla": Field(str, choices=("auto", True, False)),
    },
    "protocol": {
        "name": TEXT,
        "splits": COUNT,
        "split_rule": _one_of(*SPLIT_RULES),
        "train_fraction": RATE,
        "scaling": _one_of(*SCALINGS),
        "validation": Field(float, low=0, below=1),
        "evaluate": _one_of("test", "validation"),
        "test_samples": COUNT,
        "draws": Field(int, low=3),
        "max_test": COUNT_OR_NULL,
        "test_rows": COUNT_OR_NULL,
        "train_rows": COUNT_OR_NULL,
        "kde_rows": Field(int, null=True, low=0),
        "latent_samples": COUNT,
        "fixed_test": SWITCH,
        "stratify": SWITCH,
        "row_number": SWITCH,
        "pixels": _one_of("unit", "scaling"),
        "layer_variances": SWITCH,
    },
    "budget": {
        "name": TEXT,
        "steps": COUNT_OR_NULL,
        "seconds": Field(float, null=True, above=0),
        "growth": _one_of("auto", "none", "sqrt"),
        "max_steps": COUNT_OR_NULL,
        "stop": _one_of("none", "converged", "validation"),
        "window": Field(int, low=10),
        "tolerance": Field(float, low=0),
        "patience": COUNT,
    },
}
INFERENCE: dict[str, Field] = {  # fields of every method; each declares its own beside them
    "_target_": TEXT,
    "name": TEXT,
    "batch": COUNT,
    "samples": COUNT,
    "hyperparameters": _one_of("trained", "fixed"),
}
SECTIONS = (
    *("paths", "engine", "dataset", "protocol", "model", "likelihood", "inference", "budget", "launcher"),
    "tracker",
)


def check_kernel(name: str, value: Any) -> str:
    """The kernel's text as the command line takes it."""
    try:
        return canonical(value)
    except KernelError as error:
        raise UserError(f"{name}={show_value(value)} {error}") from None


def check_field(name: str, value: Any, field: Field) -> Any:
    """The converted value, or a UserError that names the field and what it may be."""
    leaf = name.rsplit(".", 1)[-1]
    if leaf == "kernel":
        return check_kernel(name, value)
    if leaf == "lengthscale" and value == "sqrt_dim":
        return value
    if leaf == "num_inducing" and type(value) is float and 0 < value < 1:
        return value
    try:
        return field.convert(value)
    except (ValueError, OverflowError):
        also = {
            "layers": " such as [gp,gp,gp]",
            "lengthscale": ", or sqrt_dim",
            "num_inducing": ", or a share of the training rows below 1",
        }
        allowed = field.describe() + also.get(leaf, "")
        guess = nearest(value, [c for c in field.choices if type(c) is str]) if type(value) is str else None
        hint = f"; did you mean '{guess}'?" if guess else ";"
        raise UserError(f"{name}={show_value(value)} is not allowed{hint} {name} must be {allowed}") from None
