"""Metrics of a sweep's finished units: one line per dataset and config, as `dgpbench show` prints them."""

from __future__ import annotations

from collections.abc import Mapping

from dgpbench.store.layout import RECORD
from dgpbench.store.scan import Unit, read_record
from dgpbench.store.summary import per_config, print_table, usual_metrics
from dgpbench.sweep.state import State

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
