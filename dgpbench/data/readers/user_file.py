"""Users' own files in the parsed cache.

Numbers in .csv and .parquet are streamed. Every other format, and every file under `dataset.prepare=auto`, is
read as a table of typed columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dgpbench.config.schema import NUMBERS
from dgpbench.config.suggest import did_you_mean
from dgpbench.data.cache import Blocks, CacheSpec, Data, key_of
from dgpbench.data.catalogue import Entry, entry_from_config
from dgpbench.data.prepare import VERSION, Recipe
from dgpbench.data.readers.column_types import Typed, read_columns, read_like, read_texts
from dgpbench.data.readers.file_table import FORMATS, is_text, read_table
from dgpbench.data.readers.openml import cached
from dgpbench.data.readers.text import (
    DECIMAL_COMMA,
    NotANumber,
    bounded_lines,
    open_text,
    split_fields,
    text_chunks,
)
from dgpbench.data.sources import Note
from dgpbench.errors import UserError

_BATCH_VALUES = 1 << 18
PREPARE = ("none", "auto")
_SHOWN = 12  # columns with problems that an error names


def recipe(entry: Entry, paths: dict) -> CacheSpec:
    """Return the recipe of the cache, keyed by path, reading options, size and modification time."""
    path, options = file_of(entry)
    stat, place = path.stat(), key_of([str(path.resolve()), options])
    key = key_of([str(path.resolve()), options, stat.st_size, stat.st_mtime_ns])
    stem = re.sub(r"[^A-Za-z0-9_-]+", "_", path.name.split(".")[0])[:40]

    def make(note: Note) -> tuple[Blocks, str, dict]:
        origin: dict = {"stage": "own file", "file": str(path)}
        if not is_streamed(path, options):
            X, Y, more = _table(path, options)
            return iter([(X, Y)]), key, origin | more
        return _streamed(path, options, origin), key, origin

    return CacheSpec(Path(paths["datasets"]) / entry.name / f"{stem}-{place[:8]}", frozenset([key]), make, {})


def is_prepared(entry: Entry) -> bool:
    """Whether an entry's columns are prepared by the training rows of each split."""
    chosen = entry.settings.get("prepare") or "none"
    if chosen not in PREPARE:
        raise UserError(f"dataset.prepare={chosen!r} is not allowed; choose none or auto")
    if chosen == "auto" and entry.kind != "csv":
        raise UserError(f"dataset.prepare=auto is for files of your own; remove it for {entry.name}")
    if chosen == "auto" and entry.level is not None:
        raise UserError("dataset.prepare=auto does not support dataset.level; prepare such a file yourself")
    return chosen == "auto"


def is_streamed(path: Path, options: dict) -> bool:
    """Whether a file is read as numbers block by block."""
    if "prepare" in options or "format" in options:
        return False
    return path.suffix == ".parquet" or is_text(path)


def file_of(entry: Entry) -> tuple[Path, dict]:
    """Return the user's file and how to read it."""
    prepared = is_prepared(entry)
    options = {
        "target": entry.target,
        "header": entry.settings.get("header", "auto"),
        "drop": list(entry.settings.get("drop") or []),
        "classes": entry.task not in NUMBERS,
    }
    if entry.level is not None:
        options["level"] = entry.level
    if prepared:
        options["prepare"] = VERSION
    if "id" not in entry.settings:
        return _existing(entry), options
    found = cached(entry.settings["id"])
    if found.path.suffix != ".pq":
        options["format"] = ".arff"
    if options["target"] is None:
        if not found.targets:
            raise UserError(f"OpenML dataset {entry.settings['id']} names no target; set dataset.target")
        options["target"] = list(found.targets) if len(found.targets) > 1 else found.targets[0]
    goals = options["target"] if isinstance(options["target"], list) else [options["target"]]
    options["drop"] += [name for name in found.ignored if name not in goals]
    return found.path, options


def input_names(dataset: dict) -> tuple[str, ...]:
    """Names of the input columns of a user's own file in the order of X; none where there is no header."""
    entry = entry_from_config(dataset)
    if entry.kind != "csv":
        return ()
    path, options = file_of(entry)
    if not is_streamed(path, options):
        table = read_table(path, options["header"], _wanted(options), options.get("format"))
        names = list(table.frame.columns) if table.named else None
        inputs, _ = columns(table.frame.shape[1], names, options, path)
    elif path.suffix == ".parquet":
        with open_parquet(path) as file:
            names = file.schema_arrow.names
        inputs, _ = columns(len(names), names, options, path)
    else:
        found = layout(path, options)
        names, inputs = found.names, found.inputs
    return tuple(names[i] for i in inputs) if names else ()


def _existing(entry: Entry) -> Path:
    given = entry.settings.get("path")
    if not given:
        raise UserError(
            "dataset.path is not set; name your file: dataset=csv dataset.path=my.csv dataset.target=price"
        )
    path = Path(str(given)).expanduser()
    if path.is_dir():
        raise UserError(f"dataset.path={path} is a folder; give a file ({FORMATS})")
    if not path.is_file():
        raise UserError(f"dataset.path={path}: no such file (looked in {Path.cwd()}); check the path")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty; at least 5 rows of numbers are needed")
    return path


def _streamed(path: Path, options: dict, origin: dict) -> Blocks:
    """Yield blocks of a file of numbers; an error about one value tells of all others too."""
    try:
        codes = None
        if options["classes"]:
            from dgpbench.data.labels import read_codes

            codes, origin["classes"] = read_codes(path, options)
        yield from (_parquet if path.suffix == ".parquet" else _text)(path, options, codes)
    except NotANumber as error:
        raise UserError(f"{error}{_all_problems(path, options)}") from None


def _all_problems(path: Path, options: dict) -> str:
    try:
        problems = _problems(_typed(path, options), options)
    except UserError:
        problems = []  # no table at all: the error says so
    told = f". All problems: {'; '.join(problems)}" if problems else ""
    return f"{told}. dataset.prepare=auto encodes text and dates and fills missing values"


def _wanted(options: dict) -> list:
    target = options["target"]
    return [*(target if isinstance(target, list) else [target]), *options["drop"]]


class _Columns(NamedTuple):
    inputs: list[Typed]
    targets: list[Typed]
    notes: list[str]


def _typed(path: Path, options: dict) -> _Columns:
    """Return the columns of a table with their kinds; targets that are no numbers are text."""
    table = read_table(path, options["header"], _wanted(options), options.get("format"))
    names = list(table.frame.columns) if table.named else None
    inputs, targets = columns(table.frame.shape[1], names, options, path)
    typed = read_columns(table.frame.iloc[:, [*inputs, *targets]], table.delimiter)
    found, goals = typed[: len(inputs)], typed[len(inputs) :]
    for i, (goal, position) in enumerate(zip(goals, targets, strict=True)):
        if goal.kind != "number" or (goal.odd and options["classes"]):
            goals[i] = read_texts(table.frame.iloc[:, position])
    return _Columns(found, goals, [table.note] if table.note else [])


def _problems(found: _Columns, options: dict) -> list[str]:
    """Return what keeps a table from being used as numbers, one text for each problem of a column."""
    told = []
    for column in (*found.targets, *found.inputs):
        is_target = any(column is target for target in found.targets)
        name = f"the target {column.name!r}" if is_target else repr(column.name)
        if column.kind == "text" and not (is_target and options["classes"]):
            told.append(f"{name} is text ({_counted(len(column.levels), 'different value')})")
        elif column.kind == "date":
            told.append(f"{name} holds dates")
        elif column.kind != "text" and column.example:
            told.append(f"{name} has values such as {column.example!r}")
        if column.missing:
            told.append(f"{name} has {_counted(column.missing, 'missing value')}")
    return told[:_SHOWN] + [f"and {len(told) - _SHOWN} more"] * (len(told) > _SHOWN)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _table(path: Path, options: dict) -> tuple[np.ndarray, np.ndarray, dict]:
    """Return columns (N, D), targets (N, P) and facts of a table; NaN and codes of texts need a recipe."""
    found = _typed(path, options)
    if "prepare" not in options and (problems := _problems(found, options)):
        raise UserError(
            f"{path} cannot be used as numbers: {'; '.join(problems)}; add dataset.prepare=auto, which "
            "encodes text and dates and fills missing values"
        )
    X = np.column_stack([column.values for column in found.inputs])
    Y = np.column_stack([column.values for column in found.targets])
    kept, notes = ~np.isnan(Y).any(axis=1), list(found.notes)
    for goal in found.targets:
        if goal.odd:
            raise UserError(
                f"{path}: the target {goal.name!r} has {_counted(goal.odd, 'value')} that cannot be read as "
                f"numbers, e.g. {goal.example!r}; correct them, leave them blank to drop their rows, or set "
                "dataset.task=multiclass if they are classes"
            )
        if goal.note:
            notes.append(f"target {goal.name}: {goal.note}")
    if not kept.all():
        notes.append(f"dropped {_counted((~kept).sum(), 'row')} of {len(kept):,} without a target")
    facts: dict = {}
    texts = [goal for goal in found.targets if goal.kind == "text"]
    if texts and len(found.targets) > 1:
        raise UserError(f"{path}: the target {texts[0].name!r} is text; several targets must be numbers")
    if texts:
        present, codes = np.unique(Y[kept, 0], return_inverse=True)
        facts["classes"] = [texts[0].levels[int(code)] for code in present]
        Y[kept, 0] = codes
    if "prepare" in options:
        known = [{"name": c.name, "kind": c.kind, "style": c.style, "levels": list(c.levels), "note": c.note}
                 for c in found.inputs]  # fmt: skip
        facts["table"] = {"columns": known, "notes": notes}
    return X[kept], Y[kept], facts


def typed_columns(data: Data) -> list[Typed]:
    """Return the input columns of a table in the cache."""
    known = data.meta["origin"]["table"]["columns"]
    return [
        Typed(c["name"], c["kind"], c["style"], data.X[:, i], tuple(c["levels"]), c["note"])
        for i, c in enumerate(known)
    ]


def _text(path: Path, options: dict, codes: np.ndarray | None) -> Blocks:
    """Blocks (X, Y); the target is in `codes` (N, 1) already where it holds classes."""
    found = layout(path, options)
    wanted = sorted(found.inputs if codes is not None else found.inputs + found.targets)
    place = {column: i for i, column in enumerate(wanted)}
    inputs = [place[i] for i in found.inputs]
    targets = [place[i] for i in found.targets if i in place]
    usecols = None if len(wanted) == found.count else wanted
    row = 0
    for chunk in text_chunks(path, found.delimiter, found.header, usecols):
        yield chunk[:, inputs], chunk[:, targets] if codes is None else codes[row : row + len(chunk)]
        row += len(chunk)


class Layout(NamedTuple):
    """Layout of a text file: lines before the data, columns by number from 0."""

    delimiter: str | None
    header: int
    names: list[str] | None
    count: int
    inputs: list[int]
    targets: list[int]


def layout(path: Path, options: dict) -> Layout:
    delimiter, first, skipped = first_line(path)
    fields = split_fields(first, delimiter)
    header = _has_header(fields, options)
    names = fields if header else None
    inputs, targets = columns(len(fields), names, options, path)
    return Layout(delimiter, skipped + 1 if header else 0, names, len(fields), inputs, targets)


def first_line(path: Path) -> tuple[str | None, str, int]:
    """Delimiter, first line that is not blank, and how many blank lines precede it."""
    with open_text(path) as file:
        for skipped, line in enumerate(bounded_lines(file, path)):
            if line.strip():
                return delimiter_of(line), line, skipped
    raise UserError(f"{path} has only blank lines; at least 5 rows of numbers are needed")


def delimiter_of(line: str) -> str | None:
    """The commonest of comma, semicolon and tab; None for blanks. A comma inside a number is no delimiter."""
    for c in (";", "\t"):
        fields = [field.strip() for field in line.split(c)]
        if len(fields) > 1 and any(map(DECIMAL_COMMA.fullmatch, fields)):
            if all(DECIMAL_COMMA.fullmatch(field) or is_number(field) for field in fields):
                return c
    counts = {c: line.count(c) for c in (",", ";", "\t")}
    best = max(counts, key=counts.get)
    return best if counts[best] else None


def _has_header(fields: list[str], options: dict) -> bool:
    """True if the first line names columns: text in it says so, but a class may be text in any line."""
    setting = options["header"]
    if setting in (True, False):
        return setting
    if setting != "auto":
        raise UserError(f"dataset.header={setting!r}; allowed: auto, true, false")
    text = [field for field in fields if not is_number(field)]
    if not options["classes"] or len(text) != 1 or str(options["target"]) in text:
        return bool(text)
    target = -1 if options["target"] is None else options["target"]  # one text: a class, or else all numbers
    return not (type(target) is int and -len(fields) <= target < len(fields) and fields[target] == text[0])


def is_number(text: str) -> bool:
    """An empty field is a missing value, not a column name."""
    try:
        float(text or "nan")
    except ValueError:
        return False
    return True


def columns(
    count: int, names: Sequence[str] | None, options: dict, path: Path
) -> tuple[list[int], list[int]]:
    """0-based positions of inputs and targets; columns go by name, or by number from 0 (-1: the last)."""
    if count < 2:
        raise UserError(
            f"{path} has one column; at least one input and a target are needed (separated by comma, "
            "semicolon, tab or blank)"
        )
    dropped = {_position(c, count, names, path, "dataset.drop") for c in options["drop"]}
    target = options["target"]
    if target is None:
        target = max((i for i in range(count) if i not in dropped), default=-1)
    many = target if isinstance(target, list) else [target]
    targets = [_position(t, count, names, path, "dataset.target") for t in many]
    if dropped & set(targets):
        raise UserError(f"{path}: the target column is also in dataset.drop; take it out of one of them")
    inputs = [i for i in range(count) if i not in dropped and i not in targets]
    if "level" in options:
        level = _position(options["level"], count, names, path, "dataset.level")
        if level not in inputs:
            raise UserError(f"{path}: the level column is the target or in dataset.drop; take it out there")
        inputs = [*(i for i in inputs if i != level), level]
    if not inputs:
        raise UserError(f"{path}: no input column is left; shorten dataset.drop")
    return inputs, targets


def _position(column: Any, count: int, names: Sequence[str] | None, path: Path, setting: str) -> int:
    if names and str(column) in names:
        if list(names).count(str(column)) > 1 or f"{column} (2)" in names:
            raise UserError(f"{path}: two columns are called {column!r}; give {setting} as a number from 0")
        return list(names).index(str(column))
    try:
        number = int(str(column))
    except ValueError:
        number = count
    if -count <= number < count:
        return number % count
    known = (
        ", ".join(list(names)[:12]) + (", ..." if len(names) > 12 else "")
        if names
        else "no header line was found"
    )
    raise UserError(
        f"{path}: {setting}={column!r} is no column; allowed: a name ({known}) or a number from 0 to "
        f"{count - 1}"
    )


def open_parquet(path: Path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise UserError(
            f"{path}: not a Parquet file that can be read ({str(error).splitlines()[0]})"
        ) from error


def _parquet(path: Path, options: dict, codes: np.ndarray | None) -> Blocks:
    import pyarrow as pa

    with open_parquet(path) as file:
        names = file.schema_arrow.names
        inputs, targets = columns(len(names), names, options, path)
        wanted = [names[i] for i in (inputs if codes is not None else inputs + targets)]
        for name in wanted:
            kind = file.schema_arrow.field(name).type
            if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
                raise NotANumber(
                    f"{path}, column {name!r} holds {kind}, not numbers; encode it, or leave it out with "
                    "dataset.drop"
                )
        row = 0
        for batch in file.iter_batches(max(1, _BATCH_VALUES // len(wanted)), columns=wanted):
            block = np.empty((batch.num_rows, len(wanted)))
            for j, name in enumerate(wanted):
                block[:, j] = batch.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False)
            if not np.isfinite(block).all():
                i, j = np.argwhere(~np.isfinite(block))[0]
                raise NotANumber(
                    f"{path}, row {row + i}, column {wanted[j]!r} is missing, NaN or infinite; fill or "
                    "drop such rows"
                )
            Y = block[:, len(inputs) :] if codes is None else codes[row : row + len(block)]
            row += len(block)
            yield block[:, : len(inputs)], Y


def read_inputs(path: Path, count: int, names: Sequence[str] = ()) -> np.ndarray:
    """Return inputs (N, D) in original units; `count` is D, `names` are the columns that the model knows."""
    _check_file(path)
    read = _parquet_inputs if path.suffix == ".parquet" else _text_inputs if is_text(path) else _table_inputs
    return read(path, count, names)


def read_prepared(path: Path, recipe: Recipe) -> tuple[np.ndarray, list[str]]:
    """Return the rows of a file as a run with `dataset.prepare=auto` prepares them, with notes.

    A file without names has the inputs of the training file in their order.
    """
    _check_file(path)
    names = [column.name for column in recipe.columns]
    table = read_table(path, wanted=names)
    if table.frame.empty:
        raise UserError(f"{path} has a header and no rows; give one row of inputs per prediction")
    if not table.named and table.frame.shape[1] == len(names):
        table.frame.columns = names
    X, notes = recipe.apply(table.frame, str(path))
    return X, [table.note, *notes] if table.note else notes


def _check_file(path: Path) -> None:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "no such file"
        raise UserError(f"{path}: {what}; give a file with the inputs ({FORMATS})")
    if path.stat().st_size == 0:
        raise UserError(f"{path} is empty; give one row of inputs per prediction")


def positions(
    path: Path, count: int, names: Sequence[str], header: Sequence[str] | None, width: int
) -> list[int]:
    """Which columns of the file are the inputs, in the model's order."""
    if names and header:
        for name in names:
            if name not in header:
                hint = did_you_mean(name, list(header))
                raise UserError(f"{path} has no column '{name}', an input of this run{hint}")
        return [list(header).index(name) for name in names]
    if width != count:
        known = f" ({', '.join(names[:12])})" if names else ""
        raise UserError(f"{path} has {width} columns, this run {count} inputs{known}; give those, in order")
    return list(range(count))


def _text_inputs(path: Path, count: int, names: Sequence[str]) -> np.ndarray:
    delimiter, line, skipped = first_line(path)
    fields = split_fields(line, delimiter)
    header = fields if any(not is_number(field) for field in fields) else None
    wanted = positions(path, count, names, header, len(fields))
    ordered = sorted(wanted)
    usecols = None if len(ordered) == len(fields) else ordered
    blocks = list(text_chunks(path, delimiter, skipped + 1 if header else 0, usecols))
    if not blocks:
        raise UserError(f"{path} has a header and no rows; give one row of inputs per prediction")
    return np.concatenate(blocks)[:, [ordered.index(i) for i in wanted]]


def _parquet_inputs(path: Path, count: int, names: Sequence[str]) -> np.ndarray:
    with open_parquet(path) as file:
        header = file.schema_arrow.names
        wanted = [header[i] for i in positions(path, count, names, header, len(header))]
        table = file.read(columns=wanted)
    try:
        columns = [table.column(name).to_numpy().astype(np.float64) for name in wanted]
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: the inputs must be numbers ({error})") from None
    return np.stack(columns, axis=1)


def _table_inputs(path: Path, count: int, names: Sequence[str]) -> np.ndarray:
    table = read_table(path, wanted=names)
    header = list(table.frame.columns)
    wanted = positions(path, count, names, header if table.named else None, len(header))
    found = [read_like(table.frame.iloc[:, i], "number", "point") for i in wanted]
    for i, values in zip(wanted, found, strict=True):
        if np.isnan(values).any():
            row = int(np.flatnonzero(np.isnan(values))[0])
            raise UserError(
                f"{path}: column {header[i]!r} of row {row} is no number; correct or remove the row"
            )
    return np.stack(found, axis=1)
