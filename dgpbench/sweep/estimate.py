"""Cost of a sweep, from the times that records have measured; units never measured are counted as such."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from dgpbench.config.keys import settings
from dgpbench.progress import clock
from dgpbench.store.scan import scan
from dgpbench.sweep.plan import Plan


def cost_lines(plan: Plan, indices: Sequence[int], reference: bool = False) -> list[str]:
    """Core-hours of the units to run, with what they rest on; `reference`: also on records of other machines
    that come with the project."""
    if not indices:
        return ["nothing to run"]
    measured = _Measured(plan, reference)
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


class _Measured:
    """Times of finished units here: of the very config, else its step rate under another budget."""

    def __init__(self, plan: Plan, reference: bool):
        self.plan = plan
        self.whole, self.rates, self.rests = defaultdict(list), defaultdict(list), defaultdict(list)
        for unit in scan(plan.results, reference=reference, warn=lambda text: None):
            record = unit.record
            if record["status"] != "done" or record["wall_seconds"] is None:
                continue
            self.whole[record["config_key"]].append(record["wall_seconds"])
            if record["steps_per_second"]:
                like = _like(record["config"], record["data_hash"])
                self.rates[like].append(record["steps_per_second"])
                trained = record["training"].get("seconds") or 0.0
                self.rests[like].append(max(0.0, record["wall_seconds"] - trained))

    def seconds(self, number: int) -> float | None:
        """Expected seconds of a unit of this config, None if nothing is known."""
        cfg, data_hash = self.plan.configs[number], self.plan.hashes[number]
        first = next(i for i, unit in enumerate(self.plan.units) if unit.config == number)
        if whole := self.whole.get(self.plan.config_key(first)):
            return fmean(whole)
        like, budget = _like(cfg, data_hash), cfg["budget"]
        if like not in self.rates:
            return None
        lengths = [budget["steps"] and budget["steps"] / fmean(self.rates[like]), budget["seconds"]]
        return min(length for length in lengths if length) + fmean(self.rests[like])


def _like(cfg: dict, data_hash: str | None) -> tuple:
    """Configs that differ in budget, protocol, device or threads only take steps of about the same length."""
    kept = {
        name: value
        for name, value in settings(cfg).items()
        if not name.startswith(("budget.", "protocol.")) and name not in ("device", "threads")
    }
    return data_hash, repr(sorted(kept.items(), key=lambda item: item[0]))
