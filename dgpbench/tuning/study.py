"""`tune`: trials on validation rows, the best of each split, and its refit on all training rows.

A trial is a unit like those of a sweep, with `protocol.evaluate=validation`: test rows are neither scored nor
used for scaling, and its key says so. Each split is tuned by itself: the training rows of one split hold test
rows of another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from dgpbench.config import compose, plugins, run_key
from dgpbench.config.composition import check_words
from dgpbench.config.derived import num_splits
from dgpbench.config.refusals import check_tuned
from dgpbench.errors import UserError
from dgpbench.evaluate.metric_table import LOGLIK, find_metric
from dgpbench.evaluate.metrics import LOGLIK_KDE
from dgpbench.store.scan import Unit
from dgpbench.sweep.launch import complete
from dgpbench.sweep.plan import Plan
from dgpbench.sweep.planner import plan_units, splits_of
from dgpbench.tuning.search_space import Space, Values, create, parse

if TYPE_CHECKING:
    import pandas as pd

    from dgpbench.api.runs import Run

VALIDATION = 0.1  # share of the training rows that a trial is scored on, unless protocol.validation is given
Complete = Callable[..., list[Unit | None]]  # (plan, retry) -> its units


@dataclass(frozen=True)
class Objective:
    """The validation metric that trials are chosen by, and further ones for models that lack it."""

    names: tuple[str, ...]
    title: str
    lower: bool = False

    @classmethod
    def of(cls, name: str | None) -> Objective:
        """Return the objective for a metric, by default the log-likelihood."""
        if name is None:  # by kernel density estimate for models that only draw
            return cls(tuple(_validation(metric) for metric in (LOGLIK, LOGLIK_KDE)), "log-likelihood")
        metric = find_metric(name)
        if metric.better is None or not metric.name.startswith("test_"):
            what = "neither higher nor lower is better" if metric.better is None else "it is not of test rows"
            raise UserError(f"--metric {name} cannot choose settings: {what}; use e.g. loglik, rmse or crps")
        own = _validation(metric.name)
        return cls((own,), own.removeprefix("valid_"), metric.better == "lower")

    def score(self, metrics: Mapping[str, float | None]) -> float | None:
        """Return the value in the metrics of a record."""
        return next((metrics[name] for name in self.names if metrics.get(name) is not None), None)

    def gain(self, score: float | None) -> float | None:
        """Return what a search maximises."""
        return -score if score is not None and self.lower else score


def _validation(name: str) -> str:
    return name.replace("test_", "valid_", 1)


@dataclass(frozen=True)
class Trial:
    """Values of the tuned settings on one split, and what came of them."""

    number: int
    split: int
    values: Values
    unit: Unit | None
    objective: Objective

    @property
    def status(self) -> str:
        return "missing" if self.unit is None else self.unit.record.status

    @property
    def score(self) -> float | None:
        """Validation metric in original units, by default log-likelihood; None if the trial failed."""
        if self.unit is None or self.status != "done":
            return None
        return self.objective.score(self.unit.record.metrics)

    @property
    def gain(self) -> float | None:
        """The score, or its negative if lower is better."""
        return self.objective.gain(self.score)


@dataclass(repr=False)
class Study:
    """A finished search. `dgpbench.tune` returns one.

    Attributes
    ----------
    trials : list of Trial
        All trials: number, split, values, status and score.
    refits : dict of int to Run
        By split, the best settings trained on all training rows.
    """

    space: Space
    trials: list[Trial] = field(default_factory=list)
    refits: dict[int, Run] = field(default_factory=dict)  # by split
    objective: Objective = field(default_factory=lambda: Objective.of(None))

    @property
    def splits(self) -> list[int]:
        """Splits that were tuned."""
        return list(dict.fromkeys(trial.split for trial in self.trials))

    def ranked(self, split: int) -> list[Trial]:
        """Return the trials of a split from best to worst; failed trials are last.

        Parameters
        ----------
        split : int
            Number of the split.

        Returns
        -------
        list of Trial
        """
        own = [trial for trial in self.trials if trial.split == split]
        return sorted(own, key=lambda t: (t.gain is None, -(t.gain or 0.0), t.number))

    def best(self, split: int | None = None) -> list[str]:
        """Return the settings of the best trial.

        Parameters
        ----------
        split : int, default=None
            Number of the split; None means the first one tuned.

        Returns
        -------
        list of str
            Settings as for `dgpbench.run`.

        Raises
        ------
        UserError
            If no trial finished.
        """
        ranked = self.ranked(self.splits[0] if split is None else split)
        if ranked[0].score is None:
            reason = ranked[0].unit.record.reason if ranked[0].unit else "it was not run"
            raise UserError(f"no trial has a validation {self.objective.title}; the first ended so: {reason}")
        return self.space.overrides(ranked[0].values)

    def __repr__(self) -> str:
        return f"<Study of {', '.join(self.space.names)}: {len(self.trials)} trials>"

    def frame(self) -> pd.DataFrame:
        """Return the trials as a table.

        Returns
        -------
        pandas.DataFrame
            One row per trial: number, split, status, score and the tuned values as text.
        """
        import pandas as pd

        rows = [
            {"trial": t.number, "split": t.split, "status": t.status, self.objective.names[0]: t.score}
            | dict(zip(self.space.names, t.values, strict=True))
            for t in self.trials
        ]
        return pd.DataFrame(rows)

    def _repr_html_(self) -> str:
        return self.frame()._repr_html_()


def tune(
    *overrides: str,
    trials: int = 20,
    seed: int = 0,
    sampler: str = "random",
    config_dirs: Sequence[str | Path] = (),
    quiet: bool = True,
    metric: str | None = None,
) -> Study:
    """Search for the best settings on validation rows, then train them on all training rows.

    Parameters
    ----------
    *overrides : str
        Settings. Ranges such as ``"inference.adam.learning_rate=log(1e-3,1e-1)"``, ``uniform(a,b)``,
        ``int(a,b)`` and lists ``a,b`` are searched. The split is 0 unless given.
    trials : int, default=20
        Number of trials of each split.
    seed : int, default=0
        Seed of the search.
    sampler : {"random", "optuna"}, default="random"
        How settings are chosen.
    config_dirs : sequence of path, default=()
        Folders with your own configs.
    quiet : bool, default=True
        Hide progress output.
    metric : str, default=None
        Metric of the validation rows to choose by, e.g. ``"rmse"``; None means the log-likelihood.

    Returns
    -------
    Study

    Raises
    ------
    UserError
        If a setting is invalid, nothing is searched, or no trial finishes.

    Examples
    --------
    >>> study = dgpbench.tune("model=knn", "dataset=step", "model.k=int(1,20)", trials=5)  # doctest: +SKIP
    >>> study.best()  # doctest: +SKIP
    ['model.k=7']
    """
    check_words(overrides)
    plugins.use(config_dirs)
    run = partial(complete, quiet=quiet)
    return refit(search(overrides, trials, seed, sampler, config_dirs, run, metric), config_dirs, run)


def search(
    overrides: Sequence[str],
    trials: int,
    seed: int,
    sampler: str,
    config_dirs: Sequence[str | Path],
    run: Complete,
    metric: str | None = None,
) -> Study:
    """The trials of every split, each run once; those that are done are read."""
    if trials < 1 or seed < 0:
        raise UserError("a search needs at least one trial and a seed of at least 0")
    study = Study(parse(overrides, config_dirs), objective=Objective.of(metric))
    space = study.space
    splits = split_numbers(space, config_dirs)
    samplers = {split: create(sampler, space, trials, seed) for split in splits}
    number = dict.fromkeys(splits, 0)
    while True:
        asked = [(split, values) for split, one in samplers.items() for values in one.ask()]
        if not asked:
            return study
        configs = [trial_config(space, values, config_dirs) for _, values in asked]
        jobs = [(cfg, [split], [cfg["seed"]]) for cfg, (split, _) in zip(configs, asked, strict=True)]
        names = [run_key(cfg | {"split": split}, "") for cfg, (split,), _ in jobs]  # equal ones run once
        plan = plan_units(["tune", *overrides], jobs)
        pairs = zip(plan.units, run(plan), strict=True)
        units = {names[planned.config]: unit for planned, unit in pairs}
        for (split, values), name in zip(asked, names, strict=True):
            study.trials.append(Trial(number[split], split, values, units.get(name), study.objective))
            number[split] += 1
        for split, one in samplers.items():
            count = sum(own == split for own, _ in asked)
            last = [trial.gain for trial in study.trials if trial.split == split]
            one.tell(last[len(last) - count :])


def refit(study: Study, config_dirs: Sequence[str | Path], run: Complete) -> Study:
    """Train the best of each split on all its training rows, and evaluate it on the test rows.

    A plain run of the same settings has the same numbers, but its record does not say that they were tuned:
    it is made again.
    """
    from dgpbench.api.runs import Run

    jobs = []
    for split in study.splits:
        cfg = compose([*study.space.fixed, *study.best(split)], config_dirs)
        names, count = ", ".join(study.space.names), len(study.ranked(split))
        text = f"{names}: best of {count} by validation {study.objective.title}"
        cfg = cfg | {"tuned": text, "protocol": cfg["protocol"] | {"validation": 0.0}}
        jobs.append((cfg, [split], [cfg["seed"]]))
    words = ["tune", *study.space.fixed]
    found = _by_split(plan_units(words, jobs), run)
    unsaid = [job for job in jobs if (unit := found.get(job[1][0])) and not unit.record.config.get("tuned")]
    if unsaid:
        found |= _by_split(plan_units(words, unsaid), run, retry="all")
    study.refits = {split: Run(unit.record, unit.path) for split, unit in found.items()}
    return study


def _by_split(plan: Plan, run: Complete, **options: str) -> dict[int, Unit]:
    pairs = zip(plan.units, run(plan, **options), strict=True)
    return {planned.split: unit for planned, unit in pairs if unit is not None}


def split_numbers(space: Space, config_dirs: Sequence[str | Path]) -> list[int]:
    """The splits that are tuned, each by itself."""
    cfg = compose(space.fixed, config_dirs)
    if "model" not in space.names:
        check_tuned(cfg["model"], space.names)
    if space.splits is None:
        return list(range(num_splits(cfg["dataset"], cfg["protocol"])))
    return list(splits_of(list(space.splits), cfg))


def trial_config(space: Space, values: Values, config_dirs: Sequence[str | Path]) -> dict:
    """The config of a trial: some training rows held out, and nothing but those scored."""
    given = any(text.startswith("protocol.validation=") for text in space.fixed)
    held_out = [] if given else [f"protocol.validation={VALIDATION}"]
    chosen = [*space.fixed, *held_out, *space.overrides(values), "protocol.evaluate=validation"]
    cfg = compose(chosen, config_dirs)
    label = f"{cfg['protocol']['name']}-tune"  # trials lie in folders of their own
    return cfg | {"protocol": cfg["protocol"] | {"name": label}}
