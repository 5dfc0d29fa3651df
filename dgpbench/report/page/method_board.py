"""The leaderboard of the user's runs: methods by datasets, any metric, filtered and sorted in the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from dgpbench.evaluate.metric_table import LOGLIK, find_metric, known_metrics
from dgpbench.report.comparison.comparison_views import decimals, shown
from dgpbench.report.comparison.methods import Method, commonest_protocol
from dgpbench.report.page.frame import Links
from dgpbench.report.result_table import by_split
from dgpbench.report.rules import summarise
from dgpbench.store.scan import Unit
from dgpbench.store.summary import usual_metrics

FILTERS = ("protocol", "model", "inference", "dataset")
NONE = "<p>No runs of your own here yet; <code>dgpbench run model=dgp2 dataset=energy</code> makes one.</p>"
HOW = (
    "Mean (standard error) over splits, with their number. Bold: error bars overlap those of the best method "
    "with as many splits. The table shows one protocol at a time, so that all rows have the same test data. "
    "Click a column to sort; point at or tap a cell for links to its runs."
)


def board(found: Sequence[Method], links: Links) -> str:
    """Controls and table."""
    if not found:
        return NONE
    units = [unit for method in found for runs in method.units.values() for unit in runs]
    metrics = _metrics(units)
    first = metrics[0] if metrics else LOGLIK
    datasets = sorted({data for method in found for data in method.units})
    heads = "".join(f'<th scope="col" class="n" data-set="{escape(d)}">{escape(d)}</th>' for d in datasets)
    body = "\n".join(_row(method, datasets, metrics, first, links) for method in found)
    return (
        f'<div id="board">{_controls(found, datasets, metrics)}'
        '<div class="scroll"><table><thead><tr><th scope="col">model</th>'
        '<th scope="col" class="roomy">inference</th><th scope="col" class="roomy">settings</th>'
        f"{heads}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
        f'<p class="notes" id="board-none" hidden>No run matches.</p><p class="notes">{escape(HOW)}</p></div>'
    )


def _metrics(units: Sequence[Unit]) -> list[str]:
    """Metrics that any run has, the usual first."""
    known = {n for unit in units for n, v in unit.record.metrics.items() if v is not None}
    usual = usual_metrics(units)
    table = known_metrics()
    rest = [n for n in table if n in known and n not in usual]
    return [*usual, *rest, *sorted(known - set(table))]


def _controls(found: Sequence[Method], datasets: Sequence[str], metrics: Sequence[str]) -> str:
    usual = commonest_protocol(found)
    choices = {
        "protocol": [usual, *sorted({m.protocol for m in found} - {usual})],
        "model": ["", *sorted({m.model for m in found})],
        "inference": ["", *sorted({m.inference for m in found})],
        "dataset": ["", *datasets],
    }
    options = "".join(
        f'<option value="{escape(name)}" data-better="{find_metric(name, [name]).better or ""}">'
        f"{escape(name)}</option>"
        for name in metrics
    )
    out = f'<label>metric <select data-filter="metric">{options}</select></label>'
    for name in FILTERS:
        inside = "".join(f'<option value="{escape(v)}">{escape(v or "all")}</option>' for v in choices[name])
        out += f'<label>{name} <select data-filter="{name}">{inside}</select></label>'
    out += '<label>search <input type="search" data-filter="search" placeholder="words of a row"></label>'
    return f'<div class="controls" role="search">{out}</div>'


def _row(method: Method, datasets: Sequence[str], metrics: Sequence[str], first: str, links: Links) -> str:
    cells = "".join(_cell(method.units.get(data, []), data, metrics, first, links) for data in datasets)
    names = "".join(
        f' data-{name}="{escape(getattr(method, name))}"' for name in ("model", "inference", "protocol")
    )
    more = escape(" ".join(part for part in (method.inference, method.settings) if part))
    return (
        f'<tr class="ours"{names}>'
        f'<th scope="row">{escape(method.model)}<small class="cramped">{more}</small></th>'
        f'<th scope="row" class="roomy">{escape(method.inference)}</th>'
        f'<th scope="row" class="settings roomy">{escape(method.settings)}</th>{cells}</tr>'
    )


def _cell(units: Sequence[Unit], data: str, metrics: Sequence[str], first: str, links: Links) -> str:
    if not units:
        return f'<td data-set="{escape(data)}"></td>'
    text, numbers = "", {}
    failed: dict[int, str] = {}
    for name in metrics:
        values, failed, _ = by_split(units, name)
        if summary := summarise(values.values()):
            numbers[name] = [summary.mean, summary.error, summary.n]
            if name == first:
                text = f"{shown(summary, decimals([summary]))} <small>{summary.n}</small>"
    splits = sorted({unit.record.split for unit in units})
    lines = [f"splits {', '.join(map(str, splits))}"]
    lines += [f"split {split} {reason}" for split, reason in failed.items()]
    paths = "\n".join(links.of(unit) for unit in units)
    return (
        f'<td data-set="{escape(data)}" tabindex="0" data-numbers="{escape(json.dumps(numbers))}" '
        f'data-failed="{len(failed)}" data-detail="{escape(chr(10).join(lines))}" '
        f'data-links="{escape(paths)}">{text}</td>'
    )
