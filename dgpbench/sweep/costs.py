"""Costs of the units of a plan that is being run: from records, and from the units that end meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean, median

from dgpbench.progress import clock
from dgpbench.sweep.estimate import Measured
from dgpbench.sweep.plan import Plan


class Costs:
    """Expected seconds of the units of a plan, from earlier records and from the units that end meanwhile."""

    def __init__(self, plan: Plan, known: Sequence[Path] = ()):
        self.plan = plan
        measured = Measured(plan, known)
        used = {unit.config for unit in plan.units}  # a line that repeats another has no units of its own
        self.by_config = {number: measured.seconds(number) for number in used}
        self.here: dict[int, list[float]] = defaultdict(list)  # seconds of units that ended, by config
        self.paces: dict[str, list[float]] = defaultdict(list)  # the same over those expected, by inference

    def learn(self, index: int, seconds: float) -> None:
        """Take the time of a unit that has ended: for its config, and for the others of its inference, which
        may be slower than was guessed, on a machine slower than that of the records."""
        number = self.plan.units[index].config
        self.here[number].append(seconds)
        if expected := self.by_config[number]:
            self.paces[self._inference(number)].append(seconds / expected)

    def _inference(self, number: int) -> str:
        return self.plan.configs[number]["inference"]["name"]

    def one(self, index: int) -> float | None:
        """Expected seconds of a unit, None if nothing is known."""
        number = self.plan.units[index].config
        if number in self.here:
            return fmean(self.here[number])
        expected = self.by_config[number]
        paces = self.paces.get(self._inference(number)) or [p for own in self.paces.values() for p in own]
        return expected if expected is None or not paces else expected * median(paces)

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
        return f"{total:.1f} core-hours" + (f" and {unknown} units of unknown cost" if unknown else "")
