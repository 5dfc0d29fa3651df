"""The state of a sweep as a table: one line per dataset and model, then the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from dgpbench.config.schema import show_value
from dgpbench.config.sections import flatten
from dgpbench.plain_text import aligned, visible
from dgpbench.progress import clock
from dgpbench.store.layout import RECORD, labels_of
from dgpbench.store.scan import Unit, read_record
from dgpbench.store.summary import per_config, print_table, usual_metrics
from dgpbench.sweep.plan import Plan
from dgpbench.sweep.state import State

ORDER = (
    *("done", "running", "failed", "diverged", "timeout", "oom", "interrupted", "stale"),
    *("damaged", "newer", "missing"),
)
SHOWN_REASONS, REASON = 10, 500  # lines, and characters of each


def counts(states: Mapping[int, State]) -> str:
    """'12 done, 1 failed, 27 missing'."""
    found = Counter(state.status for state in states.values())
    return ", ".join(f"{found[status]:,} {status}" for status in ORDER if found[status]) or "no units"


def rows(plan: Plan, states: Mapping[int, State]) -> list[dict]:
    """One row per dataset, model and variant, with the number of units in each status."""
    names = _names(plan)
    found: dict[tuple, Counter] = {}
    for index, state in states.items():
        found.setdefault(names[plan.units[index].config], Counter())[state.status] += 1
    columns = [status for status in ORDER if status == "done" or any(c[status] for c in found.values())]
    return [
        dict(zip(("dataset", "model", "variant"), name, strict=True)) | {c: n[c] for c in columns}
        for name, n in found.items()
    ]


def _names(plan: Plan) -> list[tuple[str, str, str]]:
    """Dataset, model and what else was swept, by config."""
    flat = [
        flatten({k: v for k, v in cfg.items() if k not in ("dataset", "paths", "launcher", "threads")})
        for cfg in plan.configs
    ]
    labels = [labels_of(cfg | {"split": 0}) for cfg in plan.configs]
    out = []
    for number, cfg in enumerate(plan.configs):
        alike = [flat[i] for i in range(len(flat)) if labels[i]["model"] == labels[number]["model"]]
        telling = [f for f, v in flat[number].items() if any(other.get(f) != v for other in alike)]
        variant = visible(" ".join(f"{f}={show_value(flat[number][f])}" for f in telling))
        out.append((cfg["dataset"]["name"], cfg["model"]["name"], variant))
    return out


def reasons(plan: Plan, states: Mapping[int, State]) -> list[str]:
    """Return the reasons of failures, the commonest first, each with an example and its folder.

    Damaged and newer records are omitted: reading them has printed a warning for each.
    """
    alike: dict[tuple[str, str], list[int]] = {}
    for index, state in states.items():
        if state.status not in ("done", "missing", "running", "damaged", "newer"):
            alike.setdefault((state.status, state.reason or "no reason recorded"), []).append(index)
    lines = []
    for (status, reason), found in sorted(alike.items(), key=lambda item: -len(item[1])):
        first, others = found[0], f" and {len(found) - 1} more" if len(found) > 1 else ""
        place = f" [{states[first].folder}]" if states[first].folder else ""
        lines.append(f"{status}: {plan.label(first)}{others}: {visible(reason, REASON)}{place}")
    if len(lines) > SHOWN_REASONS:
        more = len(lines) - SHOWN_REASONS
        lines[SHOWN_REASONS:] = [f"... and {more} other reasons: dgpbench show --failed"]
    return lines


def running(plan: Plan, states: Mapping[int, State]) -> list[str]:
    """Lines of the running units: holder and progress."""
    lines = []
    for index, state in states.items():
        if state.status == "running" and state.lease is not None:
            progress = state.lease.progress
            left = progress.get("left")
            rest = f", {clock(left)} left" if left is not None else ""
            lines.append(f"running: {plan.label(index)}: {state.reason}{steps_text(progress)}{rest}")
    return lines


def steps_text(progress: dict) -> str:
    """', step 1,200/5,000' as far as it is known."""
    if not progress.get("step"):
        return ""
    return f", step {progress['step']:,}" + (f"/{progress['steps']:,}" if progress.get("steps") else "")


def render(plan: Plan, states: Mapping[int, State]) -> str:
    """Table, sum and reasons as text."""
    table = rows(plan, states)
    columns = [c for c in (table[0] if table else {}) if any(row[c] != "" for row in table)]
    cells = [columns, *[[str(row[c]) if row[c] != 0 else "." for c in columns] for row in table]]
    names = [i for i, name in enumerate(columns) if name in ("dataset", "model", "variant")]
    total = f"{len(states):,} units: {counts(states)}"
    return "\n".join([*aligned(cells, names), total, *running(plan, states), *reasons(plan, states)])


LEFT_OUT = ("config_key", "not_done")  # said by the table of states


def done_units(states: Mapping[int, State]) -> list[Unit]:
    """The finished units with their records; one that cannot be read is left out."""
    found = []
    for state in states.values():
        if state.status == "done" and state.folder:
            try:
                record = read_record(state.folder)
            except (ValueError, OSError):
                continue
            if record:
                found.append(Unit(record, state.folder / RECORD))
    return found


def print_metrics(states: Mapping[int, State]) -> None:
    """Mean (standard error) over splits of the usual metrics, with seconds; nothing if nothing is done."""
    units = done_units(states)
    metrics = usual_metrics(units)
    if metrics:
        rows = per_config(units, metrics)
        print()
        print_table([{name: value for name, value in row.items() if name not in LEFT_OUT} for row in rows])
