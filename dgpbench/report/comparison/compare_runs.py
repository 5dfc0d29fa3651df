"""From records to a comparison: per row one dataset, per cell the records of exactly one config."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dgpbench.config.keys import DATA_FIELDS, config_key, hashed, later_defaults, settings
from dgpbench.config.suggest import did_you_mean
from dgpbench.config.tree import config_folders, member, options
from dgpbench.errors import UserError
from dgpbench.evaluate.metric_table import LOGLIK, Metric, check_task, find_metric, unit_words
from dgpbench.report.comparison.fairness import refuse
from dgpbench.report.comparison.question import Heading, Question, ask
from dgpbench.report.result_table import Cell, Place, Spec, Table
from dgpbench.store.differences import dataset_label
from dgpbench.store.record import Record
from dgpbench.store.scan import Unit
from dgpbench.sweep.state import timed

ERRORS = ("corrected", "plain")  # forms of standard errors over splits


@dataclass(frozen=True)
class Comparison:
    """A table of plain runs with the configs of its cells and what was left out of it."""

    table: Table
    metric: Metric
    configs: dict[tuple[str, str], dict]
    words: tuple[str, ...]
    notes: tuple[str, ...] = ()  # what was left out, and why

    @property
    def config_dirs(self) -> tuple[str, ...]:
        return self.table.spec.config_dirs


def compare(
    words: Sequence[str],
    units: Sequence[Unit],
    *,
    metric: str = LOGLIK,
    config_dirs: Sequence[str] = (),
    against: str | None = None,
    more: Sequence[str] = (),
    tuned: bool = False,
    errors: str = ERRORS[0],
) -> Comparison:
    """Compare the models, settings and datasets that `words` name, from these records.

    Parameters
    ----------
    words : sequence of str
        Arguments as for `dgpbench sweep`.
    units : sequence of Unit
        Records to use.
    metric : str
        The metric in each cell.
    config_dirs : sequence of str
        Folders with the user's own configs.
    against : str, optional
        The column that tests compare with; the first one by default.
    more : sequence of str
        Arguments to add to the commands of missing runs, such as ``paths.results=DIR``.
    tuned : bool
        Follow each column with its refits by `dgpbench tune`.
    errors : {"corrected", "plain"}
        Whether standard errors allow for the rows that splits share.
    """
    question = ask(words, config_dirs)
    chosen = find_metric(metric, {name for unit in units for name in unit.record.metrics})
    by_data: dict[str, list[Unit]] = {}
    for unit in units:
        by_data.setdefault(unit.record.dataset, []).append(unit)
    if not question.rows:
        question = ask([*words, f"dataset={','.join(_datasets_with_runs(question, by_data))}"], config_dirs)
    rows = question.rows
    columns, notes = _distinct(question, rows[0])
    configs = {(row.label, column.label): question.config(row, column) for row in rows for column in columns}
    refuse({column.label: configs[rows[0].label, column.label] for column in columns})
    tasks = {row: config["dataset"].get("task", "regression") for (row, _), config in configs.items()}
    for label, task in tasks.items():
        check_task(chosen, label, task)
    cells: dict[tuple[str, str], Cell] = {}
    for row in rows:
        found = {column: configs[row.label, column.label] for column in columns}
        places = {column: _place(row, column, chosen, question, more) for column in columns}
        in_row, left_out = _row_cells(question, row, found, places, by_data)
        cells |= in_row
        notes += left_out
    labels = [column.label for column in columns]
    if tuned:
        labels = _add_refits(question, labels, cells, configs, by_data)
    spec = Spec(
        name="comparison",
        title=chosen.title,
        units=unit_words(chosen, tasks.values()),
        rows=tuple(row.label for row in rows),
        columns=tuple(labels),
        places={at: cell.place for at, cell in cells.items()},
        bold="row" if chosen.better else "none",
        baseline=_baseline(against, labels),
        config_dirs=question.config_dirs,
        corrected_errors=errors == ERRORS[0],
    )
    return Comparison(Table(spec, cells), chosen, configs, tuple(words), tuple(notes))


def _row_cells(
    question: Question,
    row: Heading,
    configs: dict[Heading, dict],
    places: dict[Heading, Place],
    by_data: dict[str, list[Unit]],
) -> tuple[dict[tuple[str, str], Cell], list[str]]:
    """The cells of a row, by the configs and places of its columns; notes on what is left out of them."""
    held = by_data.get(next(iter(configs.values()))["dataset"]["name"], [])
    keys, left_out = _keys(configs, row, held)
    cells = {}
    for column, config in configs.items():
        units = [unit for unit in held if unit.record.config_key == keys[column]]
        cells[row.label, column.label] = _cell(question, places[column], config, keys[column], units)
    return cells, left_out


def _add_refits(
    question: Question,
    columns: Sequence[str],
    cells: dict[tuple[str, str], Cell],
    configs: dict[tuple[str, str], dict],
    by_data: dict[str, list[Unit]],
) -> list[str]:
    """Put the cells and configs of refits beside those of their columns; returns all labels in order.

    A refit stands for the split it was tuned on: splits that were not tuned are not missing from its cell.
    """
    rows = list(dict.fromkeys(row for row, _ in cells))
    out = []
    for column in columns:
        found = {}
        for row in rows:
            config, cell = configs[row, column], cells[row, column]
            held = [u for u in by_data.get(config["dataset"]["name"], ()) if _same_file(u.record, config)]
            data = {u.record.data_hash for u in cell.units}
            found[row] = refits(config, [u for u in held if not data or u.record.data_hash in data])
        texts = list(dict.fromkeys(text for by_text in found.values() for text in by_text))
        labels = tuned_labels(column, texts) if texts else {}
        out += [column, *labels.values()]
        for text, label in labels.items():
            for row in rows:
                base, units = cells[row, column], found[row].get(text, [])
                cell = _cell(question, replace(base.place, column=label), configs[row, column], None, units)
                cell.expected = len({u.record.split for u in cell.units})
                cell.wanted = tuple(sorted({u.record.split for u in cell.units}))
                cells[row, label], configs[row, label] = cell, configs[row, column]
    if len(out) == len(columns):
        raise UserError("no refits of these columns; choose their settings first: dgpbench tune --help")
    return out


def _baseline(against: str | None, columns: Sequence[str]) -> str:
    against = member("model", against, columns) if against else None
    if against is not None and against not in columns:
        raise UserError(f"--against {against} is no column{did_you_mean(against, columns)}")
    return against or columns[0]


def _datasets_with_runs(question: Question, by_data: dict[str, list[Unit]]) -> list[str]:
    """The datasets of which one of the columns has records; own files only where they are named."""
    configs = {column: question.config(None, column) for column in question.columns}
    folders = config_folders(question.config_dirs)
    found = []
    for name in sorted(set(by_data) & set(options("dataset", folders)) - {"csv", "openml"}):
        chosen = by_data[name][0].record.config["dataset"]
        known = later_defaults("dataset") | {k: v for k, v in chosen.items() if k in DATA_FIELDS}
        with_data = {column: config | {"dataset": known} for column, config in configs.items()}
        if any(_keys(with_data, Heading(name, ()), by_data[name])[0].values()):
            found.append(name)
    if not found:
        raise UserError("no runs of these; name the datasets too, dataset=boston,energy, and run them: --run")
    return found


def _distinct(question: Question, row: Heading) -> tuple[tuple[Heading, ...], list[str]]:
    """Columns without those that would repeat another: settings that its model does not use."""
    held: dict[str, Heading] = {}
    notes = []
    for column in question.columns:
        key = config_key(question.config(row, column), "")
        if key in held:
            notes.append(f"{column.label} is the same run as {held[key].label}: shown once")
        held.setdefault(key, column)
    return tuple(held.values()), notes


def _keys(
    configs: dict[Heading, dict], row: Heading, units: Sequence[Unit]
) -> tuple[dict[Heading, str | None], list[str]]:
    """The config_key of each column that has records, all on the same data; notes on what that leaves out."""
    held = {unit.record.config_key for unit in units if _same_file(unit.record, next(iter(configs.values())))}
    by_hash: dict[str, dict[Heading, str]] = {}
    for data_hash in {unit.record.data_hash for unit in units if unit.record.data_hash}:
        for column, config in configs.items():
            for key in _possible(config, data_hash, units):
                if key in held:
                    by_hash.setdefault(data_hash, {}).setdefault(column, key)
    if not by_hash:
        return dict.fromkeys(configs), []
    stated = next(iter(configs.values()))["dataset"].get("data_sha256")
    latest = {h: max(u.record.finished for u in units if u.record.data_hash == h) for h in by_hash}
    best = max(by_hash, key=lambda h: (h == stated, len(by_hash[h]), latest[h]))
    others = len(by_hash) - 1
    notes = [f"{row.label}: runs on other data of this name are left out (data {best[:8]} taken)"]
    return {column: by_hash[best].get(column) for column in configs}, notes if others else []


def _same_file(record: Record, config: dict) -> bool:
    """Return whether a record of a user's own file or of OpenML is of the data that the config names."""
    if record.dataset not in ("csv", "openml"):
        return True
    return dataset_label(record.config) == dataset_label(config)


def _possible(config: dict, data_hash: str, units: Sequence[Unit]) -> list[str]:
    """The keys a config may have; under a time budget one for each machine that ran it, most done first."""
    if not timed(config):
        return [config_key(config, data_hash)]
    count: dict[str, int] = {}
    for unit in units:
        theirs = unit.record.config
        if theirs["budget"]["seconds"] == config["budget"]["seconds"]:
            machine = {name: theirs[name] for name in ("device", "threads")}
            key = config_key(config | machine, data_hash)
            count[key] = count.get(key, 0) + (unit.record.config_key == key)
    return sorted(count, key=lambda key: -count[key])


def _place(row: Heading, column: Heading, metric: Metric, question: Question, more: Sequence[str]) -> Place:
    dataset = next(word for word in row.words if word.startswith("dataset="))
    rest = [word for word in row.words if word != dataset]
    seeds = [] if question.seeds == (0,) else [f"seed={','.join(map(str, question.seeds))}"]
    return Place(
        row.label,
        column.label,
        dataset.partition("=")[2],
        overrides=(*column.words, *rest, *seeds, *more),
        metric=metric.name,
        better=metric.better or "higher",
        config_dirs=question.config_dirs,
    )


def _cell(question: Question, place: Place, config: dict, key: str | None, units: Sequence[Unit]) -> Cell:
    """Records into the cell. A split counts once all its seeds are done, with their mean."""
    splits = question.splits_of(config)
    kept = [u for u in units if u.record.split in splits and u.record.seed in question.seeds]
    cell = Cell(place, expected=len(splits), wanted=question.splits, config_key=key)
    cell.take(kept)
    if len(question.seeds) > 1:
        done = {s: sum(u.record.split == s and u.record.done for u in kept) for s in splits}
        cell.values = {s: v for s, v in cell.values.items() if done[s] == len(question.seeds)}
    return cell


def logarithms(comparison: Comparison) -> Table:
    """The table that tests of differences take: of a metric with the data's scale, in logarithms."""
    import math

    table = comparison.table
    if not comparison.metric.ratio:
        return table
    tiny = 1e-300
    cells = {
        at: replace(cell, values={s: math.log(max(v, tiny)) for s, v in cell.values.items()})
        for at, cell in table.cells.items()
    }
    return replace(table, cells=cells)


def tuned_names(text: str) -> tuple[str, ...]:
    """Names of the settings that were chosen, from what a record says of its tuning."""
    return tuple(name.strip() for name in text.partition(":")[0].split(","))


def refits(config: dict, units: Sequence[Unit]) -> dict[str, list[Unit]]:
    """Refits that are `config` but for what was tuned, by what was tuned; of a split and seed the latest."""
    found: dict[str, dict[tuple[int, int], Unit]] = {}
    for unit in sorted(units, key=lambda u: (u.record.done, u.record.finished)):
        record = unit.record
        text = record.config.get("tuned")
        if text and _agree(config, record.config, tuned_names(str(text))):
            found.setdefault(str(text), {})[record.split, record.seed] = unit
    return {text: list(units.values()) for text, units in found.items()}


def _agree(config: dict, theirs: dict, names: Sequence[str]) -> bool:
    ours, other = (_other_settings(given, names) for given in (config, theirs))
    return ours == other


def _other_settings(config: dict, names: Sequence[str]) -> dict:
    """Settings without the names; of a group, such as model, without all its fields."""
    parts = tuple(f"{name}." for name in names)
    flat = hashed(settings(config))
    return {name: v for name, v in flat.items() if name not in names and not name.startswith(parts)}


def tuned_labels(column: str, texts: Sequence[str]) -> dict[str, str]:
    """Labels of a column's refits, by what was tuned; told apart by it where that differs."""
    if len(texts) == 1:
        return {texts[0]: f"{column}, tuned"}
    return {text: f"{column}, tuned {text}" for text in texts}
