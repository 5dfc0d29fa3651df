"""Expected times of the units of a plan: from records, and from the units that end meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean, median

from dgpbench.progress import clock
from dgpbench.store import timing as costs
from dgpbench.store.layout import reference_folders
from dgpbench.sweep.plan import Plan

NAMED = 4  # models of unknown cost that are named


class Costs:
    """Expected seconds of the units of a plan.

    `known` are the folders of reference records; None means those of the results folder and the package.
    """

    def __init__(self, plan: Plan, known: Sequence[Path] | None = None):
        self.plan = plan
        self.known = reference_folders(plan.results) if known is None else known
        self.here: dict[int, list[float]] = defaultdict(list)  # seconds of units that ended, by config
        self.paces: dict[str, list[float]] = defaultdict(list)  # the same over those expected, by inference

    @cached_property
    def by_config(self) -> dict[int, costs.Cost | None]:
        """The expected cost of a unit of each config that has units."""
        plan = self.plan
        firsts: dict[int, int] = {}
        for index, unit in enumerate(plan.units):
            firsts.setdefault(unit.config, index)
        wanted = {
            number: tuple(plan.configs[number][group]["name"] for group in ("dataset", "model", "inference"))
            for number in firsts
        }
        own = costs.own_records(plan.results, dict.fromkeys(wanted.values()), costs.MOST_OWN[1])
        records = costs.Costs(own, self.known)
        return {
            number: records.expect(
                plan.configs[number], plan.config_key(first), plan.hashes[number], sizes(plan.configs[number])
            )
            for number, first in firsts.items()
        }

    def learn(self, index: int, seconds: float) -> None:
        """Take the time of a unit that has ended: for its config, and for others of its inference.

        They may be slower than expected on this machine, or beside other work.
        """
        number = self.plan.units[index].config
        self.here[number].append(seconds)
        if expected := self.by_config[number]:
            self.paces[self._inference(number)].append(seconds / max(expected.seconds, 1e-3))

    def _inference(self, number: int) -> str:
        return self.plan.configs[number]["inference"]["name"]

    def one(self, index: int) -> float | None:
        """Return the expected seconds of a unit, None if nothing is known."""
        number = self.plan.units[index].config
        if number in self.here:
            return fmean(self.here[number])
        expected = self.by_config[number]
        paces = self.paces.get(self._inference(number)) or [p for own in self.paces.values() for p in own]
        if expected is None:
            return None
        return expected.seconds * (median(paces) if paces else 1.0)

    def text(self, index: int) -> str:
        """'dgp2 kin8nm split 0 (dsvi2017_dgp2_shared), about 0:45:00'."""
        seconds, name = self.one(index), self.plan.configs[self.plan.units[index].config]["experiment"]
        cost = "cost unknown" if seconds is None else f"about {clock(seconds)}"
        named = f" ({name})" if name else ""
        return f"{self.plan.label(index)}{named}, {cost}"

    def hours(self, indices: Iterable[int]) -> str:
        """'3.2 core-hours', with how many units are not counted in."""
        found = [(self.one(i), self.plan.configs[self.plan.units[i].config]["threads"]) for i in indices]
        total = sum(seconds * threads for seconds, threads in found if seconds is not None) / 3600
        unknown = sum(seconds is None for seconds, _ in found)
        return f"{total:.1f} core-hours" + (f" and {_units(unknown)} of unknown cost" if unknown else "")

    def lines(self, indices: Sequence[int]) -> list[str]:
        """Return the core-hours of the units to run, one line for each kind of record they rest on."""
        if not indices:
            return ["nothing to run"]
        groups: dict[str | None, list[int]] = {}
        for index in indices:
            expected = self.by_config[self.plan.units[index].config]
            groups.setdefault(expected.source if expected else None, []).append(index)
        lines = [self._known(source, found) for source, found in groups.items() if source]
        return lines + ([self._unknown(groups[None])] if None in groups else [])

    def _known(self, source: str, indices: Sequence[int]) -> str:
        seconds = [self.one(index) or 0.0 for index in indices]
        threads = [self.plan.configs[self.plan.units[index].config]["threads"] for index in indices]
        cores = sum(one * n for one, n in zip(seconds, threads, strict=True))
        return (
            f"{_units(len(indices))}: about {cores / 3600:.3g} core-hours ({clock(sum(seconds))} one after "
            f"another), from {source}"
        )

    def _unknown(self, indices: Sequence[int]) -> str:
        configs = [self.plan.configs[self.plan.units[index].config] for index in indices]
        names = sorted({f"{cfg['model']['name']} on {cfg['dataset']['name']}" for cfg in configs})
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        return (
            f"{_units(len(indices))}: cost unknown, no record is like them: {', '.join(names[:NAMED])}{more}"
        )


def _units(count: int) -> str:
    return f"{count:,} unit{'' if count == 1 else 's'}"


def sizes(cfg: dict) -> costs.Sizes | None:
    """Return the sizes of a split; of the user's own file from the cache of parsed data."""
    from dgpbench.data.cache import check_cache
    from dgpbench.data.catalogue import entry_from_config
    from dgpbench.data.loader import recipe_for
    from dgpbench.errors import UserError

    found = costs.sizes_of(cfg)
    if found is not None:
        return found
    try:
        entry = entry_from_config(cfg["dataset"])
        meta = None if entry.on_demand else check_cache(recipe_for(entry, cfg["paths"], cfg["protocol"]))[0]
    except (UserError, OSError):
        return None
    return (
        costs.sizes_of({**cfg, "dataset": {**cfg["dataset"], "n": meta["n"], "d": meta["d"]}})
        if meta
        else None
    )
