"""Where the records come from, and with what they were made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd

from dgpbench import __version__
from dgpbench.report.grid import plain
from dgpbench.report.render.html import render
from dgpbench.store.scan import Unit


def provenance(units: Sequence[Unit]) -> str:
    """Return a table of the records' facts, counted."""
    records = [unit.record for unit in units]
    places = Counter(_place(unit) for unit in units)
    facts = {
        "records": [f"{name}: {count}" for name, count in sorted(places.items())],
        "status": _counted(record["status"] for record in records),
        "finished": _span([record["finished"] for record in records]),
        "git commit": _counted((record["git_commit"] or "unknown")[:10] for record in records),
        "device": _counted(
            f"{record['device']}, threads: {record['threads'] or 'not recorded'}" for record in records
        ),
        **{
            name: _counted(record["versions"].get(name, "unknown") for record in records)
            for name in sorted({key for record in records for key in record["versions"]})
        },
        "this page": [f"dgpbench {__version__}"],
    }
    lines = [{"what": name, "found": "; ".join(values)} for name, values in facts.items() if values]
    return render(plain("Records", pd.DataFrame(lines), name="records"))


def _counted(values: Iterable) -> list[str]:
    return [f"{name} ({count})" for name, count in Counter(map(str, values)).most_common(8)]


def _span(times: list[str]) -> list[str]:
    return [f"{min(times)} to {max(times)}"] if times else []


def _place(unit: Unit) -> str:
    if unit.is_community:
        return f"community {unit.path.name} (consistent, not re-run)"
    return f"reference {unit.path.name}" if unit.is_reference else "own results"
