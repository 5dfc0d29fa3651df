"""Pages of single runs, and the list that leads to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

import yaml

from dgpbench.progress import metric_rows, times
from dgpbench.report.charts.run_charts import run_name, run_panels
from dgpbench.report.charts.vega import panel_html
from dgpbench.report.grid import plain
from dgpbench.report.page.frame import FOLDER, LIBRARY, Links, frame, page_name, vega
from dgpbench.report.render import to_html
from dgpbench.store.differences import command, dataset_label, differences
from dgpbench.store.record import Record
from dgpbench.store.scan import Unit
from dgpbench.store.summary import usual_metrics

MOST = 300  # runs with a page of their own, the latest first
SHOWN_TRACEBACK = 6000  # characters


def latest(units: Sequence[Unit]) -> list[Unit]:
    """Runs in the order in which they finished, the latest first."""
    return sorted(units, key=lambda unit: (unit.record.finished, unit.record.key), reverse=True)


def run_list(units: Sequence[Unit], links: Links) -> str:
    """A table of all runs with links to their pages."""
    metrics = usual_metrics(units)
    heads = ["run", "model", *metrics, "training s", "split", "status", "settings", "finished"]
    numbers = {"split", "training s", *metrics}
    head = "".join(
        f'<th scope="col"{" class=n" if name in numbers else ""}>{escape(name)}</th>' for name in heads
    )
    body = "\n".join(_line(unit, metrics, links) for unit in latest(units))
    left = len(units) - MOST
    more = (
        f'<p class="notes">The latest {MOST} runs have a page; <code>dgpbench plot KEY</code> draws any.</p>'
    )
    return (
        '<div class="controls" role="search"><label>search <input type="search" '
        'data-rows="run-list" placeholder="words of a row"></label></div>'
        f'<div class="scroll tall"><table id="run-list"><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>{more if left > 0 else ''}"
    )


def _line(unit: Unit, metrics: Sequence[str], links: Links) -> str:
    record = unit.record
    settings = " ".join(word for word in differences(record) if not word.startswith("dataset."))
    label = f"{dataset_label(record.config)} {record.key[:8]}"
    cells = f'<th scope="row"><a href="{escape(links.of(unit))}">{escape(label)}</a></th>'
    cells += f'<td class="text">{escape(record.model)}</td>'
    for value in (*(record.metrics.get(name) for name in metrics), record.training_seconds):
        cells += "<td></td>" if value is None else f'<td data-value="{value!r}">{value:.4g}</td>'
    cells += f'<td data-value="{record.split}">{record.split}</td>'
    cells += f'<td class="text">{escape(record.status)}</td>'
    cells += f'<td class="text settings">{escape(settings)}</td>'
    return f'<tr class="ours">{cells}<td class="text">{escape(record.finished[:16])}</td></tr>'


def run_page(unit: Unit) -> str:
    """The page of one run: numbers, charts, settings that are not the default, how to repeat it."""
    record = unit.record
    panels, why = run_panels(unit)
    drawn = "".join(panel_html(panel) for _, panel in panels)
    why = why.replace(f"{unit.folder}/", "")  # a page may be passed on
    settings = differences(record)
    told = "".join(f"<li><code>{escape(word)}</code></li>" for word in settings)
    parts = [
        '<p><a href="../index.html">all runs</a></p>',
        _failure(record) if not record.done else "",
        f'<div class="charts">{drawn}</div>' if drawn else "",
        f'<p class="notes">{escape(why)}</p>' if why else "",
        _metrics(record) if record.metrics else "",
        "<h2>Settings that are not the default</h2>",
        f"<ul>{told}</ul>" if told else "<p>None: every setting is the default of its model.</p>",
        f'<h2>How to repeat it</h2><pre class="command">{escape(command(record))}</pre>',
        _facts(record),
        "".join(f'<p class="notes">{escape(note)}</p>' for note in record.notes),
        _folded("The whole config", yaml.safe_dump(_portable(record.config), sort_keys=False)),
    ]
    about = f"{record.inference}, protocol {record.protocol}: {record.status}"
    return frame(run_name(record), about, "", "".join(parts), library=LIBRARY)


def _failure(record: Record) -> str:
    reason = f'<p class="bad">{escape(record.status)}: {escape(record.reason or "no reason recorded")}</p>'
    trace = record.details.get("traceback")
    return reason + (_folded("Traceback", str(trace)[-SHOWN_TRACEBACK:]) if trace else "")


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def _metrics(record: Record) -> str:
    rows = metric_rows(record.metrics)
    heads = (
        ("test", "original units", "standardised units") if any(row[2] for row in rows) else ("test", "value")
    )
    return to_html(plain("Metrics", [dict(zip(heads, row, strict=False)) for row in rows], name="metrics"))


def _facts(record: Record) -> str:
    sizes = (f"{name} {value:,}" for name, value in record.sizes.items() if isinstance(value, int))
    facts = {
        "time": times(record),
        "sizes": ", ".join(sizes),
        "device": f"{record.device or 'unknown'}, threads: {record.threads or 'unknown'}",
        "versions": ", ".join(f"{name} {value}" for name, value in record.versions.items()),
        "git commit": record.git_commit,
        "finished": record.finished,
        "key": record.key,
        "data": record.data_hash,
    }
    lines = [{"fact": name, "value": text} for name, text in facts.items() if text]
    return to_html(plain("Facts", lines, name="facts"))


def _portable(config: dict) -> dict:
    """Without the folders of the machine: a page may be passed on."""
    return {name: value for name, value in config.items() if name not in ("paths", "launcher")}


def run_pages(units: Sequence[Unit], tell: Callable[[str], None]) -> Iterator[tuple[str, str]]:
    """Yield file names in the report's folder and contents: pages of the latest runs and their library."""
    chosen = latest(units)[:MOST]
    for number, unit in enumerate(chosen, 1):
        tell(f"page of run {number} of {len(chosen)}")
        yield page_name(unit.record.key), run_page(unit)
    if chosen:
        yield f"{FOLDER}/{LIBRARY}", vega()
