"""All curves that the words of a sweep name, run one after another, each going on where it stopped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.active_learning.learning_curves import Curve, curve_key, curve_path, read_curve, write_curve
from dgpbench.active_learning.selection import POOLS, SELECT, Options, learn, resolve
from dgpbench.config.composition import check_words
from dgpbench.config.suggest import did_you_mean
from dgpbench.config.tree import config_folders
from dgpbench.errors import UserError, in_user_file, message
from dgpbench.sweep.planner import axes_of, composer, splits_of

if TYPE_CHECKING:
    import pandas as pd

Tell = Callable[[Curve, dict], None]


def active(
    *overrides: str,
    initial: int = 3,
    iterations: int = 10,
    select: str | Sequence[str] = "auto",
    pool: str = "train",
    config_dirs: Sequence[str | Path] = (),
) -> pd.DataFrame:
    """Return learning curves of models that choose their own training rows.

    In each iteration a model is trained on the labelled rows, scored, and asks for the label of the row of
    the pool that it is least certain of. Finished steps are loaded instead of being repeated.

    Parameters
    ----------
    *overrides : str
        Settings with lists of values, e.g. ``"model=gpr,dgp2"``. The split is 0 unless given.
    initial : int, default=3
        Rows that are labelled at the start.
    iterations : int, default=10
        How often a model is trained and scored; each time but the last one more row is labelled.
    select : {"auto", "variance", "entropy", "random"} or several of them, default="auto"
        How rows are chosen.
    pool : {"train", "all"}, default="train"
        Rows to choose from: the training rows, or all rows as in bayesian_benchmarks.
    config_dirs : sequence of path, default=()
        Folders with your own configs.

    Returns
    -------
    pandas.DataFrame
        One row per step.

    Raises
    ------
    UserError
        If a setting is invalid, or the pool is too small.

    Examples
    --------
    >>> steps = dgpbench.active("model=linear", "dataset=step", iterations=3)
    >>> steps["labels"].tolist()
    [3, 4, 5]
    """
    from dgpbench.active_learning.learning_curves import frame

    check_words(overrides)
    names = [select] if isinstance(select, str) else list(select)
    return frame(run_curves(overrides, initial, iterations, names, pool, config_dirs))


def run_curves(
    overrides: Sequence[str],
    initial: int,
    iterations: int,
    select: Sequence[str],
    pool: str,
    config_dirs: Sequence[str | Path] = (),
    tell: Tell = lambda curve, step: None,
) -> list[Curve]:
    """The curves of every combination, split, seed and criterion; `tell` hears of every step."""
    _check(initial, iterations, select, pool)
    configs = _configs(overrides, config_dirs)
    return [
        _run_curve(cfg, initial, iterations, name, pool, tell)
        for cfg in configs
        for name in dict.fromkeys(select)
    ]


def _check(initial: int, iterations: int, select: Sequence[str], pool: str) -> None:
    if initial < 1 or iterations < 1:
        raise UserError("active learning needs at least one initial row and one iteration")
    if not select:
        raise UserError(f"--select names no criterion; allowed: {', '.join(SELECT)}")
    for name in select:
        if name not in SELECT:
            raise UserError(f"no criterion '{name}'{did_you_mean(name, SELECT)}")
    if pool not in POOLS:
        raise UserError(f"pool={pool} is not allowed; give one of {', '.join(POOLS)}")


def _configs(overrides: Sequence[str], config_dirs: Sequence[str | Path]) -> list[dict]:
    """One config per combination, split and seed."""
    axes, splits, seeds = axes_of(overrides, config_folders(config_dirs))
    if not any(word.startswith("split=") for word in overrides):
        splits = [0]
    make = composer(axes, config_dirs)
    found = []
    for values in product(*axes.values()):
        cfg = make([f"{name}={value}" for name, value in zip(axes, values, strict=True)])
        if cfg["protocol"]["evaluate"] != "test":
            raise UserError("protocol.evaluate is for dgpbench tune; leave it out")
        for split in splits_of(splits, cfg):
            found += [cfg | {"split": split, "seed": seed} for seed in seeds or [cfg["seed"]]]
    return found


def _run_curve(cfg: dict, initial: int, iterations: int, select: str, pool: str, tell: Tell) -> Curve:
    from dgpbench.data.loader import load_split
    from dgpbench.models.base import check_task, create

    split = load_split(cfg)
    check_task(create(cfg), cfg["model"]["name"], split)
    try:
        options = Options(initial, resolve(select, split.n_classes), pool)
    except ValueError as error:
        raise UserError(str(error)) from None
    rows = split.n_train + (split.n_test if pool == "all" else 0)
    if initial >= rows:
        raise UserError(f"{initial} initial rows leave none to choose: the pool has {rows}")
    key, results = curve_key(cfg, split.data_hash, options), cfg["paths"]["results"]
    path = curve_path(results, cfg, key)
    curve = read_curve(path, Curve(key, cfg, options, split.data_hash))

    def keep(step: dict) -> None:
        curve.steps.append(step)
        write_curve(results, path, curve)
        tell(curve, step)

    for step in curve.steps[:iterations]:
        tell(curve, step)
    try:
        learn(cfg, split, options, iterations, tuple(curve.steps), keep)
    except UserError:
        raise
    except Exception as error:  # whatever a model does wrong is a fact about this curve
        curve.reason = f"{type(error).__name__}: {message(error)}{in_user_file(error)}"
        write_curve(results, path, curve)
    curve.steps = curve.steps[:iterations]
    return curve
