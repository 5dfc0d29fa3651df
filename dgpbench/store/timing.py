"""Expected time of a run, from the times that records have measured.

The user's own records come first, then the reference records, which were measured elsewhere and are scaled to
this machine. Within each: runs with the same settings, then the run that is nearest in settings and in the
arithmetic of a step, in proportion to that arithmetic.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any

from dgpbench.config.derived import planned_steps
from dgpbench.config.keys import complete, hashed, settings
from dgpbench.machine import cache_folder, pace, processor, read_cached, write_cached
from dgpbench.store.layout import slug
from dgpbench.store.record import Record
from dgpbench.store.scan import folders, packed_units, read_record

MOST_OWN = 40, 400  # own records that are read for a run, and for each model of a sweep
RECENT = 5  # records of one setting that give its times
OVERHEAD = 2e6  # products that take as long as starting the operations of one layer
DIFFERENCE = 0.3  # distance of two runs for each setting in which they differ
UNSTEADY = 3.0  # added distance of a run whose processor time is unknown
COMPILED = 0.5  # seconds below which an earlier run has compiled the first steps
CACHE_NAME = "costs"
ELSEWHERE = 2.0  # added distance of a run on another machine
OWN, OWN_SIMILAR = "your earlier runs", "similar runs of yours"
SAME, SIMILAR = "the same settings", "similar runs"


@dataclass(frozen=True)
class Sizes:
    """Rows and columns of a split."""

    rows: int
    inputs: int
    test: int
    outputs: int = 1


@dataclass(frozen=True)
class Timing:
    """What one run, or several with the same settings, took. `step` is None without training steps."""

    key: str  # config_key
    like: str  # the same for runs whose steps take the same time
    model: str
    inference: str
    fields: dict[str, Any]  # settings that decide how long a step takes
    sizes: Sizes | None  # None: unknown
    step: float | None  # seconds
    start: float | None  # seconds outside of steps and evaluation; None: compiled by an earlier run
    rest: float  # the same, whoever compiled
    evaluation: float
    steps: int | None  # None: to the end of the budget
    whole: float
    steady: bool  # timed by the processor, in one go
    finished: str
    device: str


@dataclass(frozen=True)
class Cost:
    """Expected seconds of a run, and what they rest on."""

    seconds: float
    basis: str  # OWN, OWN_SIMILAR, SAME or SIMILAR
    device: str | None = None  # where it was measured, if on another processor

    @property
    def source(self) -> str:
        """The basis in words: 'similar runs on AMD EPYC, scaled to this machine'."""
        return f"{self.basis} on {self.device}, scaled to this machine" if self.device else self.basis


class Costs:
    """Expected times from own records and the packed ones of some folders."""

    def __init__(self, own: Iterable[Record], packed: Sequence[Path] = ()):
        timings = [found for record in own if (found := timing(record))]
        self._packed = packed
        self._own = _grouped(timings)
        self._whole: dict[str, list[float]] = defaultdict(list)
        for each in timings:
            self._whole[each.key].append(each.whole)

    @cached_property
    def _elsewhere(self) -> dict[str, Timing]:
        return _packed_timings(self._packed)

    def expect(
        self, cfg: dict, key: str, data: str | None, sizes: Sizes | None = None, fresh: bool = False
    ) -> Cost | None:
        """Return what a run is expected to cost, None if there is no record to tell from.

        `key` is its config_key. `fresh`: nothing was compiled for it before.
        """
        if whole := self._whole.get(key):
            return Cost(fmean(whole), OWN)
        fields, sizes = step_fields(cfg), sizes or sizes_of(cfg)
        like = _like(data, fields)
        for timings, basis in ((self._own, OWN), (self._elsewhere, SAME)):
            if found := timings.get(like):
                return self._cost(cfg, found, 1.0, sizes or found.sizes, timings, basis, fresh)
        if sizes is None:
            return None
        work = step_work(fields, sizes)
        names = cfg["model"]["name"], cfg["inference"]["name"]
        for close in (lambda t: (t.model, t.inference) == names, lambda t: t.inference == names[1]):
            near = [
                (_distance(t, fields, work) + apart, step_work(t.fields, t.sizes), t, timings, basis)
                for timings, basis, apart in (
                    (self._own, OWN_SIMILAR, 0.0),
                    (self._elsewhere, SIMILAR, ELSEWHERE),
                )
                for t in timings.values()
                if t.sizes and close(t) and (t.model == names[0] or _is_gp(fields) and _is_gp(t.fields))
            ]
            if near:
                _, other, found, timings, basis = min(near, key=lambda each: each[0])
                return self._cost(cfg, found, work / other, sizes, timings, basis, fresh)
        return None

    def _cost(
        self,
        cfg: dict,
        found: Timing,
        ratio: float,
        sizes: Sizes | None,
        timings: dict[str, Timing],
        basis: str,
        fresh: bool,
    ) -> Cost:
        """Return the cost of a run whose steps take `ratio` times as long as those of `found`."""
        if found.step is None:
            seconds = found.whole * ratio
        else:
            budget, step = cfg["budget"], found.step * ratio
            steps = planned_steps(budget, sizes.rows if sizes else 0)
            if found.steps and (cfg["model"].get("own_training") or budget.get("stop", "none") != "none"):
                steps = min(steps or found.steps, found.steps)
            lengths = [steps and steps * step, budget["seconds"]]
            training = min(length for length in lengths if length)
            rest = _start(found, timings) if fresh else found.rest
            rows = sizes.test / found.sizes.test if sizes and found.sizes else 1.0
            seconds = training + rest + found.evaluation * rows
        here = timings is self._own or found.device == f"cpu {processor()}"
        if here:
            return Cost(seconds, basis)
        limit = cfg["budget"]["seconds"]
        scaled = seconds * pace()
        return Cost(min(scaled, seconds) if limit else scaled, basis, found.device.removeprefix("cpu "))


def own_records(results: Path, wanted: Iterable[tuple[str, str, str]], most: int) -> list[Record]:
    """Return own records with the inference of some (dataset, model, inference).

    Read at most `most` for each, first those of the same model, then those on the same dataset. A record that
    cannot be read is ignored.
    """
    places = list(folders(results, warn=lambda text: None))
    chosen: dict[Path, None] = {}
    for dataset, model, inference in wanted:
        method, ending = f"{slug(model)}-{slug(inference)}", f"-{slug(inference)}"
        same = [place for place in places if place.parts[-3].endswith(ending)]
        same.sort(key=lambda place: (place.parts[-3] != method, place.parts[-4] != slug(dataset)))
        chosen |= dict.fromkeys(same[:most])
    records = []
    for place in chosen:
        try:
            records.append(read_record(place, traces=False))
        except (ValueError, OSError):
            continue
    return [record for record in records if record is not None]


def timing(record: Record) -> Timing | None:
    """Return what a record has measured; None if it has not finished."""
    if not record.done or record.wall_seconds is None:
        return None
    training, share = record.training, record.core_share
    seconds, cfg = training.get("seconds") or 0.0, record.config
    resumed = bool(training.get("resumed_from"))
    evaluation = record.evaluate_seconds or 0.0
    rest = 0.0 if resumed else share * max(0.0, record.wall_seconds - seconds - evaluation)
    rate, steps = record.steps_per_second, training.get("steps")
    stopped = bool(training.get("converged")) or cfg["budget"].get("stop", "none") != "none"
    sizes, fields = record.sizes or {}, step_fields(cfg)
    return Timing(
        key=record.config_key,
        like=_like(record.data_hash, fields),
        model=record.model,
        inference=record.inference,
        fields=fields,
        sizes=_recorded_sizes(sizes) or sizes_of(cfg),
        step=share / rate if rate else None,
        start=None if resumed or training.get("compile_seconds", math.inf) < COMPILED else rest,
        rest=rest,
        evaluation=share * evaluation,
        steps=steps if stopped else None,
        whole=share * max(record.wall_seconds, seconds),
        steady=bool(training.get("cpu_seconds")) and not resumed,
        finished=record.finished or "",
        device=str(record.device),
    )


def step_fields(cfg: dict) -> dict[str, Any]:
    """Return the settings that decide how long a step takes.

    Runs that differ in budget, protocol, device or threads only have steps of about the same length.
    """
    return {
        name: value
        for name, value in hashed(settings(complete(cfg))).items()
        if not name.startswith(("budget.", "protocol.")) and name not in ("device", "threads")
    }


def sizes_of(cfg: dict) -> Sizes | None:
    """Return the sizes of a split as a config tells them; None where only the data do."""
    dataset, protocol = cfg["dataset"], cfg["protocol"]
    n, inputs = dataset.get("n"), dataset.get("d")
    if not n or not inputs:
        return None
    rows = dataset.get("train_rows") or round(n * protocol["train_fraction"])
    test = n - rows
    if protocol.get("test_rows"):
        rows, test = n - protocol["test_rows"], protocol["test_rows"]
    rows, test = min(rows, protocol.get("train_rows") or rows), min(test, protocol.get("max_test") or test)
    return Sizes(max(1, rows), inputs, max(1, test))


def step_work(fields: dict[str, Any], sizes: Sizes) -> float:
    """Return the products of a training step, roughly, with those that its fixed costs are worth.

    A sparse GP needs M^2 per row of the batch and M^3, as often as a sampler takes gradients in a step; an
    exact GP needs N^3. Models without either are taken to be linear in the rows.
    """
    get, rows = fields.get, sizes.rows
    batch = min(get("inference.batch") or rows, rows)
    inducing: float = get("model.num_inducing") or 0
    inducing = inducing if inducing >= 1 else inducing * rows
    if _is_gp(fields):
        if get("inference.bound") == "iwvi":
            batch *= get("inference.importance_samples", 5)
        width = get("model.width") or min(get("model.max_width") or math.inf, sizes.inputs)
        inner = min(get("model.inner_gps") or width, width)
        gps = [inner] * (fields["model.layers"].count("gp") - 1) + [sizes.outputs]
        gradients = get("inference.leapfrog", 1) * get("inference.chains", 1)
        products = sum((2 + count) * inducing**2 * batch + (3 + 3 * count) * inducing**3 for count in gps)
        return gradients * (products + OVERHEAD * len(gps))
    if get("model.own_training"):
        if inducing:
            return 3 * inducing**2 * rows + 6 * inducing**3 + OVERHEAD
        return rows**2 * (rows + 2000.0) + OVERHEAD
    if get("inference.batch"):
        return 50.0 * batch * (sizes.inputs + 100) + OVERHEAD
    return 1000.0 * rows + OVERHEAD


def _is_gp(fields: dict[str, Any]) -> bool:
    return isinstance(fields.get("model.layers"), list) and bool(fields.get("model.num_inducing"))


def _recorded_sizes(sizes: dict) -> Sizes | None:
    if not all(sizes.get(name) for name in ("n_train", "inputs", "n_test")):
        return None
    outputs = sizes.get("classes") or 0
    outputs = outputs if outputs > 2 else sizes.get("outputs") or 1
    return Sizes(sizes["n_train"], sizes["inputs"], sizes["n_test"], outputs)


def _like(data: str | None, fields: dict[str, Any]) -> str:
    text = json.dumps([data, fields], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _distance(found: Timing, fields: dict[str, Any], work: float) -> float:
    names = {name for name in {*found.fields, *fields} if not name.startswith("dataset.")}
    differing = sum(found.fields.get(name) != fields.get(name) for name in names)
    assert found.sizes is not None
    apart = abs(math.log(step_work(found.fields, found.sizes) / work))
    return DIFFERENCE * differing + apart + UNSTEADY * (not found.steady)


def _start(found: Timing, timings: dict[str, Timing]) -> float:
    """Return the seconds that compiling takes: those of `found`, else of runs with its inference."""
    if found.start is not None:
        return found.start
    for names in (("model", "inference"), ("inference",), ()):
        alike = [t for t in timings.values() if all(getattr(t, n) == getattr(found, n) for n in names)]
        if starts := [t.start for t in alike if t.start is not None and t.step]:
            return median(starts)
    return found.rest


def _grouped(timings: Iterable[Timing]) -> dict[str, Timing]:
    """Return one timing for each setting, from its steady and latest runs."""
    groups: dict[str, list[Timing]] = defaultdict(list)
    for each in timings:
        groups[each.like].append(each)
    return {like: _summary(group) for like, group in groups.items()}


def _summary(group: list[Timing]) -> Timing:
    steady = [t for t in group if t.steady] or group
    chosen = sorted(steady, key=lambda t: t.finished, reverse=True)[:RECENT]
    starts = [t.start for t in chosen if t.start is not None]
    rates = [1 / t.step for t in chosen if t.step]
    lengths = [t.steps for t in chosen if t.steps]
    return Timing(
        **{f: getattr(chosen[0], f) for f in ("key", "like", "model", "inference", "fields", "sizes")},
        step=1 / fmean(rates) if rates else None,
        start=median(starts) if starts else None,
        rest=fmean(t.rest for t in chosen),
        evaluation=fmean(t.evaluation for t in chosen),
        steps=round(fmean(lengths)) if lengths else None,
        whole=fmean(t.whole for t in chosen),
        steady=chosen[0].steady,
        finished=chosen[0].finished,
        device=chosen[0].device,
    )


def _packed_timings(places: Sequence[Path]) -> dict[str, Timing]:
    """Return the timings of packed records, kept in the cache folder until a file changes."""
    files = [path for place in places for path in sorted(place.glob("*.jsonl.gz"))]
    try:
        facts = [[str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns] for path in files]
        source = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    except OSError:
        return {}
    digest = hashlib.sha256(json.dumps([source, facts]).encode()).hexdigest()
    base = cache_folder()
    place = base / f"{CACHE_NAME}-{digest[:32]}.json" if base and files else None
    known = read_cached(place, CACHE_NAME) if place else None
    if known is None:
        records = (u.record for p in places for u in packed_units(p, warn=lambda text: None, traces=False))
        timings = list(_grouped(filter(None, map(timing, records))).values())
        shared = list({json.dumps(t.fields): t.fields for t in timings}.values())
        known = {
            "fields": shared,
            "timings": [asdict(t) | {"fields": shared.index(t.fields)} for t in timings],
        }
        if place:
            write_cached(place, CACHE_NAME, known, 4)
    found = [
        Timing(
            **each
            | {"fields": known["fields"][each["fields"]], "sizes": each["sizes"] and Sizes(**each["sizes"])}
        )
        for each in known["timings"]
    ]
    return {each.like: each for each in found}
