"""Whole tables of cells from users' files: text, Parquet, Feather, Excel and ARFF, as pandas DataFrames."""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dgpbench.data.atomic_files import atomic_file, make_folder, writing
from dgpbench.data.readers.archives import bounded_zip, unpacking
from dgpbench.data.readers.column_types import MISSING, cell_text, unique_names
from dgpbench.data.readers.text import DECIMAL_COMMA, bounded_lines, check_width, open_text
from dgpbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

MAX_CELLS = 50_000_000  # of a table that is held in memory
FORMATS = "CSV, Parquet, Feather, Excel or ARFF"
PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".arrow", ".ipc")
EXCEL = (".xlsx", ".xlsm", ".xls")
_SAMPLE = 50  # records from which delimiter and header are told
_ATTRIBUTE = re.compile(r"@attribute\s+('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S+)\s+(.+)", re.I | re.S)
_ARFF_FIELD = re.compile(r"\s*('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|(?!['\"])[^,\t]*?)\s*(?:([,\t])|$)")


@dataclass(frozen=True)
class Table:
    """Cells of a file. Columns have distinct names; `named` tells whether the file itself names them."""

    frame: pd.DataFrame
    named: bool
    delimiter: str | None = None
    note: str = ""


def suffix_of(path: Path) -> str:
    """Return the suffix that tells the format, without that of a compression."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() if last in (".gz", ".bz2") else last


def is_text(path: Path) -> bool:
    """Whether a file is read as delimited text: any suffix that names no other format."""
    return suffix_of(path) not in (*PARQUET, *FEATHER, *EXCEL, ".arff", ".ods")


def read_table(
    path: Path, header: Any = "auto", wanted: Sequence[Any] = (), suffix: str | None = None
) -> Table:
    """Read all cells of a file.

    Parameters
    ----------
    path : Path
        The file; its suffix tells the format, and any other suffix is read as text.
    header : bool or "auto", default="auto"
        Whether the first row of a text file or sheet names the columns.
    wanted : sequence, default=()
        Names of columns that are needed: a first row with one of them is a header.
    suffix : str, optional
        The format, where the file's name does not tell it.

    Raises
    ------
    UserError
        If the file cannot be read as a table, or has more than `MAX_CELLS` cells.
    """
    suffix = suffix or suffix_of(path)
    if suffix in PARQUET:
        return _parquet(path)
    if suffix in FEATHER:
        return _feather(path)
    if suffix in EXCEL:
        rows = list(_limited(_sheet(path, suffix), path))
        return _from_rows(rows, path, header, wanted, None, "")
    if suffix == ".arff":
        return _arff(path)
    if suffix == ".ods":
        raise UserError(f"{path} is an OpenDocument sheet; save it as .xlsx or .csv")
    return _text(path, header, wanted)


def _limited(rows: Iterator[list], path: Path) -> Iterator[list]:
    """Yield rows that are not blank; UserError where there are too many cells to hold."""
    cells = 0
    for row in rows:
        if any(value is not None and value != "" for value in row):
            cells += len(row)
            if cells > MAX_CELLS:
                raise UserError(
                    f"{path} has more than {MAX_CELLS:,} cells, too many to prepare in memory; prepare it "
                    "yourself, and give numbers as .csv or .parquet"
                )
            yield row


def _from_rows(
    rows: list[list], path: Path, header: Any, wanted: Sequence[Any], delimiter: str | None, note: str
) -> Table:
    import pandas as pd

    if not rows:
        raise UserError(f"{path} has no rows; at least 5 rows are needed")
    named = _is_header(rows, header, wanted)
    names = unique_names(rows[0]) if named else [f"column {i}" for i in range(len(rows[0]))]
    body = rows[1:] if named else rows
    frame = pd.DataFrame(body, columns=names, dtype=object if delimiter is not None else None)
    if delimiter is None:
        frame = frame.infer_objects()
    return Table(frame, named, delimiter, note)


def _is_header(rows: list[list], header: Any, wanted: Sequence[Any]) -> bool:
    """Whether the first row names columns: it has a wanted name, no number, or text above numbers only."""
    if header in (True, False):
        return header
    if header != "auto":
        raise UserError(f"dataset.header={header!r} is not allowed; choose auto, true or false")
    first = [str(value).strip() if value is not None else "" for value in rows[0]]
    if any(isinstance(name, str) and name in first for name in wanted):
        return True
    if not any(_numeric(field) for field in first):
        return any(first)
    return any(
        not _numeric(field)
        and field.lower() not in MISSING
        and all(_numeric(row[i]) or str(row[i]).strip().lower() in MISSING for row in rows[1:_SAMPLE])
        for i, field in enumerate(first)
        if len(rows) > 1
    )


def _numeric(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return True
    text = str(value).strip()
    return bool(DECIMAL_COMMA.fullmatch(text) or re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text))


def _text(path: Path, header: Any, wanted: Sequence[Any]) -> Table:
    encoding, note = _encoding(path)
    with open_text(path, encoding) as file:
        lines = bounded_lines(file, path)
        head = list(itertools.islice((line for line in lines if line.strip()), _SAMPLE))
        if not head:
            raise UserError(f"{path} has only blank lines; at least 5 rows are needed")
        delimiter = _delimiter(head)
    with open_text(path, encoding) as file:
        rows = list(_limited(_records(file, path, delimiter), path))
    return _from_rows(rows, path, header, wanted, delimiter or " ", note)


def _encoding(path: Path) -> tuple[str, str]:
    """Return the encoding of a text, and a note where it is a guess."""
    opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    with unpacking(path), opener(path, "rb") as file:
        start = file.read(4)
        if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return "utf-16", ""
        file.seek(0)
        decoder = io.TextIOWrapper(file, encoding="utf-8-sig")
        try:
            while decoder.read(1 << 20):
                pass
        except UnicodeDecodeError:
            return "cp1252", f"{path.name} is not UTF-8 and was read as Latin-1 (Windows-1252)"
    return "utf-8-sig", ""


def _records(file: IO[str], path: Path, delimiter: str | None) -> Iterator[list]:
    """Yield the fields of every record; UserError, with the line, where one has another number of fields."""
    lines = bounded_lines(file, path)
    if delimiter is None:
        split = ((number, line.split()) for number, line in enumerate(lines, start=1))
    else:
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
        split = ((reader.line_num, fields) for fields in reader)
    expected = None
    for number, fields in split:
        if not any(field.strip() for field in fields):
            continue
        expected = expected or len(fields)
        check_width(fields, expected, path, number)
        yield fields


def _delimiter(head: list[str]) -> str | None:
    """Return the mark that splits the first records into most fields, equally many each; None for blanks."""
    best, most = None, 1
    for mark in (",", ";", "\t", "|"):
        records = [r for r in csv.reader(head, delimiter=mark, skipinitialspace=True) if r]
        if len(records) > 1 and len(records) == _SAMPLE:
            records.pop()  # it may go on behind the sample
        widths = {len(record) for record in records}
        if len(widths) == 1 and (width := widths.pop()) > most and not _cuts_numbers(records, mark):
            best, most = mark, width
    if best is None and (found := max((",", ";", "\t"), key=head[0].count)) in head[0]:
        return found  # let the error name the first line of another length
    return best


def _cuts_numbers(records: list[list[str]], mark: str) -> bool:
    """Whether a comma is the decimal one, in lines that another mark splits."""
    return mark == "," and any(";" in field for record in records for field in record) and all(
        len(record) > 1 for record in records
    )  # fmt: skip


def _sheet(path: Path, suffix: str) -> Iterator[list]:
    """Yield the rows of a workbook's first sheet."""
    with unpacking(path):
        if suffix == ".xls":
            yield from _xls(path)
            return
        import openpyxl

        bounded_zip(path).close()
        with closing(openpyxl.load_workbook(path, read_only=True, data_only=True)) as book:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()  # those that the file states may be wrong
            rows, width = [], 0
            for row in _limited(map(list, sheet.iter_rows(values_only=True)), path):
                while row and row[-1] is None:
                    row.pop()
                width = max(width, len(row))
                rows.append(row)
            if width * len(rows) > MAX_CELLS:
                raise UserError(f"{path} has more than {MAX_CELLS:,} cells; save its table as .parquet")
            yield from (row + [None] * (width - len(row)) for row in rows)


def _xls(path: Path) -> Iterator[list]:
    import xlrd

    with closing(_Released(xlrd.open_workbook(path, logfile=io.StringIO()))) as held:
        book = held.book
        sheet = book.sheet_by_index(0)
        for i in range(sheet.nrows):
            row: list[Any] = []
            for cell in sheet.row(i):
                if cell.ctype == xlrd.XL_CELL_DATE:
                    row.append(xlrd.xldate_as_datetime(cell.value, book.datemode))
                elif cell.ctype == xlrd.XL_CELL_BOOLEAN:
                    row.append(bool(cell.value))
                elif cell.ctype in (xlrd.XL_CELL_ERROR, xlrd.XL_CELL_EMPTY, xlrd.XL_CELL_BLANK):
                    row.append(None)
                else:
                    row.append(cell.value)
            yield row


@dataclass(frozen=True)
class _Released:
    book: Any

    def close(self) -> None:
        self.book.release_resources()


@contextmanager
def _arrow(path: Path, what: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or ["damaged"])[0]
        raise UserError(f"{path}: not a {what} file that can be read ({reason}); save it again") from None


def _check_size(path: Path, rows: int, columns: int) -> None:
    if rows * columns > MAX_CELLS:
        raise UserError(
            f"{path} has {rows:,} rows of {columns:,} columns, more than {MAX_CELLS:,} cells; drop some, or "
            "give numbers only"
        )


def _parquet(path: Path) -> Table:
    import pyarrow.parquet as pq

    with _arrow(path, "Parquet"), pq.ParquetFile(path) as file:
        _check_size(path, file.metadata.num_rows, file.metadata.num_columns)
        return _from_arrow(file.read(use_threads=False), path)


def _feather(path: Path) -> Table:
    import pyarrow as pa

    with _arrow(path, "Feather"), pa.OSFile(str(path)) as source:
        file = pa.ipc.open_file(source)
        batches, rows = [], 0
        for i in range(file.num_record_batches):
            batches.append(file.get_batch(i))
            rows += batches[-1].num_rows
            _check_size(path, rows, len(file.schema))
        return _from_arrow(pa.Table.from_batches(batches, file.schema), path)


def _from_arrow(table: Any, path: Path) -> Table:
    import pandas as pd
    import pyarrow as pa

    kept = [i for i, name in enumerate(table.column_names) if not name.startswith("__index_level_")]
    names = unique_names([table.column_names[i] for i in kept])
    columns = {}
    for name, i in zip(names, kept, strict=True):
        if pa.types.is_nested(table.schema.field(i).type):
            raise UserError(f"{path}, column {name!r} holds lists or records; remove it with another tool")
        columns[name] = table.column(i).to_pandas()
    return Table(pd.DataFrame(columns), True)


def _arff(path: Path) -> Table:
    """Read attributes and rows; nominal attributes are categories, and ? is missing."""
    import pandas as pd

    encoding, note = _encoding(path)
    names: list[str] = []
    kinds: list[str] = []
    with open_text(path, encoding) as file:
        lines = enumerate(bounded_lines(file, path), start=1)
        for _, line in lines:
            text = line.strip()
            if text.lower().startswith("@attribute"):
                match = _ATTRIBUTE.fullmatch(text)
                if not match:
                    raise UserError(f"{path}: cannot read {text[:60]!r}; write @attribute NAME TYPE")
                names.append(_unquoted(match[1]))
                kinds.append(match[2].strip().lower())
            elif text.lower().startswith("@data"):
                break
        else:
            raise UserError(f"{path} has no @data line; it is not an ARFF file")
        rows = list(_limited(_arff_rows(lines, len(names), path), path))
    if not rows:
        raise UserError(f"{path} has no rows; at least 5 rows are needed")
    frame = pd.DataFrame(rows, columns=unique_names(names), dtype=object)
    for name, kind in zip(frame.columns, kinds, strict=True):
        if kind.startswith("{"):
            frame[name] = frame[name].astype("category")
    return Table(frame, True, ",", note)


def _arff_rows(lines: Iterator[tuple[int, str]], count: int, path: Path) -> Iterator[list]:
    for number, line in lines:
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        if text.startswith("{"):
            raise UserError(f"{path}, line {number}: sparse ARFF is not supported; save all values")
        fields, at = [], 0
        while len(fields) <= count:
            match = _ARFF_FIELD.match(text, at)
            if not match:
                raise UserError(f"{path}, line {number}: cannot read {text[at : at + 40]!r}")
            fields.append(_unquoted(match[1]))
            at = match.end()
            if match[2] is None:
                break
        check_width(fields, count, path, number)
        yield fields


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def store_frame(frame: pd.DataFrame, datasets: Path) -> Path:
    """Write a DataFrame to `datasets`/frames as Parquet, named by its content, and return the path."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not isinstance(frame, pd.DataFrame):
        raise UserError(f"data is a {type(frame).__name__}; give a pandas DataFrame")
    columns = []
    for i in range(frame.shape[1]):
        column = frame.iloc[:, i]
        mixed = column.dtype == object or isinstance(column.dtype, pd.CategoricalDtype)
        texts = [cell_text(value) or None for value in column.astype(object)] if mixed else None
        if texts and isinstance(column.dtype, pd.CategoricalDtype):
            columns.append(pa.array(texts, pa.string()).dictionary_encode())
        else:
            columns.append(pa.array(texts, pa.string()) if mixed else pa.array(column))
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, unique_names(list(frame.columns))), buffer)
    content = buffer.getvalue()
    path = datasets / "frames" / f"{hashlib.sha256(content).hexdigest()[:16]}.parquet"
    if not path.is_file():
        make_folder(path.parent)
        with writing(path.parent), atomic_file(path) as file:
            file.write(content)
    return path
