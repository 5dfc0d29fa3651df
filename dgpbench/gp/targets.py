"""Which targets a likelihood can have. Light: asked before TensorFlow is loaded."""

from __future__ import annotations

import numpy as np

from dgpbench.config.keys import likelihood_name
from dgpbench.errors import UserError

TASKS: dict[str, tuple[str, ...]] = {  # of each likelihood
    "gaussian": ("regression",),
    "bernoulli": ("binary",),
    "bernoulli_logit": ("binary",),
    "robustmax": ("binary", "multiclass"),
    "softmax": ("binary", "multiclass"),
    "student_t": ("regression",),
    "beta": ("regression",),
    "ordinal": ("regression",),
    "poisson": ("regression", "counts"),
    "gamma": ("regression",),
}
CONDITIONS = {  # what must hold of the targets in the model's units: (name, test, what to do)
    "beta": (
        "in (0, 1)",
        lambda y: (y > 0) & (y < 1),
        "likelihood.rescale=true maps their range there",
    ),
    "gamma": ("positive", lambda y: y > 0, "use likelihood=gaussian or student_t"),
    "poisson": ("whole numbers from 0", lambda y: (y >= 0) & (y == np.round(y)), "use likelihood=gaussian"),
    "bernoulli": ("0 or 1", lambda y: (y == 0) | (y == 1), "code the classes 0, 1"),
}
CONDITIONS["bernoulli_logit"] = CONDITIONS["bernoulli"]


def fitting(cfg: dict, split) -> str:
    """The name of the likelihood that a config means for the data of a split; UserError where it cannot have
    generated them."""
    name = likelihood_name(cfg, split.task)
    if split.task not in TASKS[name]:
        others = ", ".join(other for other, tasks in TASKS.items() if split.task in tasks)
        raise UserError(
            f"likelihood={name} does not fit {split.dataset}, whose task is {split.task}; "
            f"use likelihood=auto or one of: {others}"
        )
    check_targets(name, split)
    return name


def check_targets(name: str, split) -> None:
    """Raise UserError where targets of the split's rows lie outside what the likelihood can generate."""
    if name not in CONDITIONS:
        return
    text, holds, remedy = CONDITIONS[name]
    rows = np.concatenate([split.rows_train, split.rows_test])
    y = (split.Y[rows] - split.y_mean) / split.y_std
    bad = np.flatnonzero(~holds(y).all(1))
    if len(bad):
        value = split.Y[rows[bad[0]]].ravel()[0]
        raise UserError(
            f"likelihood={name} needs targets that are {text}; {len(bad)} of {len(rows)} rows of "
            f"{split.dataset} are not (row {rows[bad[0]]}: {value:g}); {remedy}"
        )
