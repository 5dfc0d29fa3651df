"""Cost of a sweep, from the times that records have measured; units never measured are counted as such.

A run that waited for its core, beside other work, counts with the time it had one (`core_share`).
Where no record has the very config, another budget of it gives the length of a step; where none has its step,
the GP model nearest in arithmetic does, in proportion: one of the same inference if there is any.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

from dgpbench.config.keys import settings
from dgpbench.config.upgrade import complete
from dgpbench.progress import clock
from dgpbench.store.scan import scan
from dgpbench.store.seconds import core_share
from dgpbench.sweep.plan import Plan

NEAREST = 5  # measured models that a guess rests on
FAR = 30.0  # factor in work beyond which a model of the same inference says less than others nearby
Like = tuple[str | None, str]  # data, and the settings that decide how long a step takes


def cost_lines(plan: Plan, indices: Sequence[int]) -> list[str]:
    """Core-hours of the units to run, with what they rest on."""
    if not indices:
        return ["nothing to run"]
    measured = Measured(plan)
    seconds, cores, unknown = 0.0, 0.0, set()
    for index in indices:
        number = plan.units[index].config
        one = measured.seconds(number)
        if one is None:
            unknown.add(number)
        else:
            seconds += one
            cores += one * plan.configs[number]["threads"]
    known = sum(plan.units[i].config not in unknown for i in indices)
    lines = []
    if known:
        lines.append(
            f"{known:,} units: about {cores / 3600:.3g} core-hours ({clock(seconds)} one after "
            "another), from the times of earlier records"
        )
    if unknown:
        names = sorted(
            {f"{plan.configs[n]['model']['name']} on {plan.configs[n]['dataset']['name']}" for n in unknown}
        )
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        lines.append(
            f"{len(indices) - known:,} units: cost unknown, nothing like them was measured here: "
            f"{', '.join(names[:4])}{more}"
        )
    return lines


class Measured:
    """Times of finished units: of the very config, else its step rate under another budget, else a guess."""

    def __init__(self, plan: Plan, reference: bool | Sequence[Path] = False):
        self.plan = plan
        self.whole: dict[str, list[float]] = defaultdict(list)  # seconds of a unit, by config_key
        self.rates: dict[Like, list[float]] = defaultdict(list)  # steps per second
        self.rests: dict[Like, list[float]] = defaultdict(list)  # seconds of a unit outside of steps
        self.ended: dict[Like, list[int]] = defaultdict(list)  # steps after which own training was done
        self.works: list[tuple[dict, float, float, float]] = []  # config, work, seconds of a step, the rest
        for unit in scan(plan.results, reference=reference, warn=lambda text: None):
            record = unit.record
            if record["status"] != "done" or record["wall_seconds"] is None:
                continue
            share = core_share(record)
            self.whole[record["config_key"]].append(share * record["wall_seconds"])
            if record["steps_per_second"]:
                like, cfg = _like(record["config"], record["data_hash"]), record["config"]
                step = share / record["steps_per_second"]
                rest = share * max(0.0, record["wall_seconds"] - (record["training"].get("seconds") or 0.0))
                self.rates[like].append(1 / step)
                self.rests[like].append(rest)
                if cfg["model"].get("own_training") and record["training"].get("converged"):
                    self.ended[like].append(record["training"]["steps"])
                if work := step_work(cfg):
                    self.works.append((cfg, work, step, rest))

    def seconds(self, number: int) -> float | None:
        """Expected seconds of a unit of this config, None if nothing is known."""
        cfg, data_hash = self.plan.configs[number], self.plan.hashes[number]
        first = next(i for i, unit in enumerate(self.plan.units) if unit.config == number)
        if whole := self.whole.get(self.plan.config_key(first)):
            return fmean(whole)
        like, budget = _like(cfg, data_hash), cfg["budget"]
        if like in self.rates:
            step, rest = 1 / fmean(self.rates[like]), fmean(self.rests[like])
        elif guess := self._guess(cfg):
            step, rest = guess
        else:
            return None
        lengths = [budget["steps"] and budget["steps"] * step, budget["seconds"]]
        if like in self.ended:
            lengths.append(fmean(self.ended[like]) * step)
        return min(length for length in lengths if length) + rest

    def _guess(self, cfg: dict) -> tuple[float, float] | None:
        """Seconds of a step and of all else, from the five measured models nearest in work."""
        work = step_work(cfg)
        if not work or not self.works:
            return None
        own = cfg["inference"]["name"]
        same = [
            found
            for found in self.works
            if found[0]["inference"]["name"] == own and 1 / FAR < found[1] / work < FAR
        ]
        same = same or self.works
        alike = [found for found in same if found[0]["precision"] == cfg["precision"]] or same
        near = sorted(alike, key=lambda found: abs(math.log(found[1] / work)))[:NEAREST]
        return median(step * work / other for _, other, step, _ in near), median(rest for *_, rest in near)


def step_work(cfg: dict) -> float | None:
    """Products of a training step of a GP model, roughly: M^2 per row and GP of a layer, and M^3 per GP, as
    often as a sampler takes gradients in a step."""
    model, rows = cfg["model"], cfg["dataset"].get("n")
    if "num_inducing" not in model or "layers" not in model or not rows or not cfg["dataset"].get("d"):
        return None
    rows *= cfg["protocol"]["train_fraction"]
    inducing = model["num_inducing"] if model["num_inducing"] >= 1 else model["num_inducing"] * rows
    columns = min(cfg["inference"].get("batch") or rows, rows)
    if cfg["inference"].get("bound") == "iwvi":
        columns *= cfg["inference"]["importance_samples"]
    width = model["width"] or min(model["max_width"] or math.inf, cfg["dataset"]["d"])
    inner = min(model.get("inner_gps") or width, width)
    gps = [inner] * (model["layers"].count("gp") - 1) + [1]
    gradients = cfg["inference"].get("leapfrog", 1) * cfg["inference"].get("chains", 1)
    return gradients * sum(
        (2 + count) * inducing**2 * columns + (3 + 3 * count) * inducing**3 for count in gps
    )


def _like(cfg: dict, data_hash: str | None) -> Like:
    """What decides the length of a step: configs that differ in budget, protocol, device or threads only take
    steps of about the same length."""
    kept = {
        name: value
        for name, value in settings(complete(cfg)).items()
        if not name.startswith(("budget.", "protocol.")) and name not in ("device", "threads")
    }
    return data_hash, repr(sorted(kept.items(), key=lambda item: item[0]))
