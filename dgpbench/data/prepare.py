"""Preparation of a user's table (`dataset.prepare=auto`): columns of any kind become inputs of a model.

`fit` takes all statistics (fills, categories, constant and repeated columns) from the training rows. The
recipe that it returns is plain data: it is stored in the record, and rebuilds the same scikit-learn
transformer for training, testing and new rows.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dgpbench.data.readers.column_types import KINDS, STYLES, Typed, read_like, unique_names
from dgpbench.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.compose import ColumnTransformer

VERSION = 1  # raise when `fit` or the transformer changes: data hashes and keys change with it
ONE_HOT, ORDINAL = 20, 200  # most categories to encode in this way
CYCLES = ("year", "week", "day")
USES = ("number", "date", "one_hot", "ordinal", "dropped")
MAX_COLUMNS, MAX_TEXT = 100_000, 300  # of a stored recipe; characters of a category


@dataclass(frozen=True)
class Column:
    """What is done with one column of the table."""

    name: str
    kind: str  # as read: number, switch, date, text
    use: str  # number, date, one_hot, ordinal, dropped
    style: str = ""  # how text writes its numbers or dates
    fill: float | None = None  # in place of missing values: the median of the training rows
    indicator: bool = False  # a further input tells where values are missing
    categories: tuple[str, ...] = ()  # of the training rows, sorted; "" is a missing text
    cycles: tuple[str, ...] = ()  # of dates: sine and cosine of the position in each
    note: str = ""

    @property
    def names(self) -> list[str]:
        """Names of the inputs that the column becomes."""
        if self.use == "dropped":
            return []
        if self.use == "one_hot":
            shown = self.categories[1:] if len(self.categories) == 2 else self.categories
            return [f"{self.name}={text or 'missing'}" for text in shown]
        own = [self.name]
        own += [f"{self.name} {cycle} {wave}" for cycle in self.cycles for wave in ("sin", "cos")]
        return [*own, f"{self.name} missing"] if self.indicator else own

    def text(self) -> str:
        """What was done, for the plan."""
        if self.use == "dropped":
            return f"dropped: {self.note}"
        if self.use == "date":
            cycles = "".join(f", position in the {cycle}" for cycle in self.cycles)
            done = f"date as days from 1970-01-01{cycles}"
        elif self.use == "one_hot":
            done = f"one-hot, {len(self.categories)} categories"
        elif self.use == "ordinal":
            done = f"ordinal, {len(self.categories)} categories in alphabetical order"
        else:
            done = "1 for yes, 0 for no" if self.kind == "switch" else "number"
        if self.indicator:
            fill = _shown_day(self.fill) if self.use == "date" else f"{self.fill:g}"
            done += f"; missing values become {fill}, with an indicator"
        return f"{done}; {self.note}" if self.note else done


def _shown_day(days: float | None) -> str:
    return str(np.datetime64(int(days or 0), "D"))


@dataclass(frozen=True)
class Recipe:
    """What `prepare=auto` does with every input column of a table, in the order of the file."""

    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()  # on the whole file

    @property
    def names(self) -> list[str]:
        """Names of the inputs of the model, in order."""
        return [name for column in self.columns for name in column.names]

    @property
    def used(self) -> list[Column]:
        """Columns that become inputs; new rows must have these."""
        return [column for column in self.columns if column.use != "dropped"]

    def lines(self, most: int = 40) -> list[str]:
        """Return what was done to each column, with unchanged numbers in one line."""
        plain = [c.name for c in self.columns if c.text() == "number"]
        others = [f"{c.name}: {c.text()}" for c in self.columns if c.text() != "number"]
        lines = list(self.notes)
        if plain:
            lines.append(f"{', '.join(plain[:most])}{', ...' * (len(plain) > most)}: unchanged")
        lines += others[:most]
        return [*lines, f"and {len(others) - most} further columns"] if len(others) > most else lines

    def design(self, table: dict[str, np.ndarray]) -> np.ndarray:
        """Return the inputs (N, D) of the model from columns as `Typed` holds them: floats, or texts."""
        import pandas as pd

        frame = pd.DataFrame({column.name: table[column.name] for column in self.used})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # categories that are new: `apply` notes them
            return np.ascontiguousarray(_transformer(self).transform(frame), dtype=np.float64)

    def apply(self, frame: pd.DataFrame, where: str = "the table") -> tuple[np.ndarray, list[str]]:
        """Return the inputs (N, D) of new rows, and notes on values that the training rows did not have.

        Parameters
        ----------
        frame : DataFrame
            Rows with the columns of the training table, by name; others are ignored.
        where : str, default="the table"
            What an error calls it.
        """
        from dgpbench.config.suggest import did_you_mean

        names = unique_names(list(frame.columns))
        table, notes = {}, []
        for column in self.used:
            if column.name not in names:
                hint = did_you_mean(column.name, names)
                raise UserError(f"{where} has no column '{column.name}', an input of this run{hint}")
            values = read_like(frame.iloc[:, names.index(column.name)], column.kind, column.style)
            table[column.name] = values
            if text := _unknown(column, values):
                notes.append(text)
        return self.design(table), notes

    def document(self) -> dict:
        """Return the recipe as JSON takes it."""
        columns = []
        for column in self.columns:
            empty = asdict(Column(column.name, column.kind, column.use))
            fields = {k: v for k, v in asdict(column).items() if k in _NEEDED or v != empty[k]}
            columns.append({k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()})
        return {"version": VERSION, "columns": columns, "notes": list(self.notes)}

    @classmethod
    def from_document(cls, value: Any) -> Recipe:
        """Return the recipe of a record; ValueError unless it is one that `fit` could have made."""
        if not isinstance(value, dict) or set(value) != {"version", "columns", "notes"}:
            raise ValueError("it is not a recipe")
        if value["version"] != VERSION or type(value["version"]) is not int:
            raise ValueError("it has another version")
        columns, notes = value["columns"], value["notes"]
        if not isinstance(columns, list) or not 0 < len(columns) <= MAX_COLUMNS:
            raise ValueError("it has no columns")
        if not _texts(notes) or len(notes) > 100:
            raise ValueError("its notes are not texts")
        found = cls(tuple(_column(c) for c in columns), tuple(notes))
        if len({column.name for column in found.columns}) != len(columns):
            raise ValueError("two of its columns have one name")
        if not found.names:
            raise ValueError("it has no inputs")
        return found


_NEEDED = ("name", "kind", "use")


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is str and len(v) <= 1000 for v in value)


def _column(value: Any) -> Column:
    """Return a column of a stored recipe; ValueError for what `fit` does not make."""
    fields = Column.__dataclass_fields__
    if not isinstance(value, dict) or not set(_NEEDED) <= set(value) <= set(fields):
        raise ValueError("a column has other fields")
    value = dict(value)
    for name in ("categories", "cycles"):
        if name in value and not _texts(value[name]):
            raise ValueError(f"{name} of a column are not texts")
        value[name] = tuple(value.get(name, ()))
    if type(value.get("fill")) is int:  # JSON may write 2.0 as 2
        value["fill"] = float(value["fill"])
    c = Column(**value)
    if not all(type(text) is str and len(text) <= 1000 for text in (c.name, c.kind, c.use, c.style, c.note)):
        raise ValueError("a column has no text where one is needed")
    if c.kind not in KINDS or c.use not in USES or c.style not in STYLES or type(c.indicator) is not bool:
        raise ValueError(f"column {c.name[:80]!r} has an unknown kind or use")
    if c.use == "dropped":
        return c
    allowed = {"text": ("one_hot", "ordinal"), "date": ("date",)}.get(c.kind, ("number",))
    fill = type(c.fill) is float and math.isfinite(c.fill)
    orders = {"date": ("dmy", "mdy", ""), "number": ("point", "comma", "")}.get(c.kind, ("",))
    most = {"one_hot": ONE_HOT, "ordinal": ORDINAL}.get(c.use, 0)
    distinct = list(c.categories) == sorted(set(c.categories))
    fits = (
        c.use in allowed
        and c.style in orders
        and (fill or c.use == "one_hot")
        and (c.use != "ordinal" or (fill and 0 <= c.fill < len(c.categories) and (2 * c.fill).is_integer()))
        and (c.use != "one_hot" or not c.indicator)
        and (c.kind == "text") == bool(c.categories)
        and distinct
        and len(c.categories) <= most
        and (c.use != "ordinal" or "" not in c.categories)
        and (c.use == "date" or not c.cycles)
        and list(c.cycles) == [cycle for cycle in CYCLES if cycle in c.cycles]
    )
    if not fits:
        raise ValueError(f"column {c.name[:80]!r} does not fit together")
    return c


def _unknown(column: Column, values: np.ndarray) -> str:
    """What new values the training rows did not have."""
    if column.kind == "text":
        known = {*column.categories, *([""] if column.indicator else [])}
        new = [text for text in dict.fromkeys(values) if text not in known]
        if not new:
            return ""
        share = f"{np.isin(values, new).sum()} of {len(values)} rows"
        return (
            f"{column.name}: {share} have a category that no training row has, e.g. {new[0][:30] or 'none'!r}"
        )
    count = int(np.isnan(values).sum())
    if not count or column.indicator:
        return ""
    what = "neither yes nor no" if column.kind == "switch" else f"no {column.kind}"
    fill = _shown_day(column.fill) if column.use == "date" else f"{column.fill:g}"
    return f"{column.name}: {count} of {len(values)} rows are missing or {what}; they become {fill}"


def fit(columns: Sequence[Typed], train: np.ndarray, notes: Sequence[str] = ()) -> Recipe:
    """Return the recipe of a table, by its training rows.

    Parameters
    ----------
    columns : sequence of Typed
        The input columns, all rows.
    train : ndarray of int
        Numbers of the training rows: no other row is used.
    notes : sequence of str
        Notes on the file.

    Raises
    ------
    UserError
        If no column is left.
    """
    made: list[Column] = []
    seen: dict[bytes, str] = {}
    for column in columns:
        one = _fitted(column, column.values[train])
        if one.use != "dropped":
            content = _content(column, column.values[train])
            if content in seen:
                one = Column(one.name, one.kind, "dropped", one.style, note=f"the same as {seen[content]}")
            else:
                seen[content] = one.name
        made.append(one)
    recipe = Recipe(tuple(made), tuple(notes))
    if not recipe.used:
        told = "; ".join(f"{c.name} {c.text()}" for c in made[:8])
        raise UserError(f"no input column is left to learn from: {told}")
    return recipe


def _content(column: Typed, values: np.ndarray) -> bytes:
    """Return a hash of training values that two columns share only if they are equal."""
    digest = hashlib.sha256(column.kind.encode())
    if column.kind == "text":  # by the texts there are: codes count those of other rows too
        present, values = np.unique(values, return_inverse=True)
        digest.update(repr([column.levels[int(c)] for c in present if not np.isnan(c)]).encode())
    digest.update(np.ascontiguousarray(values).tobytes())
    return digest.digest()


def _fitted(column: Typed, values: np.ndarray) -> Column:
    """Return what to do with a column whose training rows have these values."""
    present = values[~np.isnan(values)]
    missing = len(present) < len(values)
    name, kind, style = column.name, column.kind, column.style

    def dropped(why: str) -> Column:
        return Column(name, kind, "dropped", style, note=why)

    if not len(present):
        return dropped("it has no values in the training rows")
    distinct = np.unique(present)
    if len(distinct) == 1 and not missing:
        return dropped("it has one value only in the training rows")
    if kind == "text":
        found = [column.levels[int(code)] for code in distinct]
        if max(map(len, found)) > MAX_TEXT:
            return dropped("free text")
        if len(found) > ORDINAL or len(found) > max(2, len(present) // 2):
            return dropped(
                f"{len(found):,} different texts in {len(present):,} training rows: names or free text"
            )
        if len(found) + missing <= ONE_HOT:
            return Column(name, kind, "one_hot", categories=("",) * missing + tuple(found), note=column.note)
        ranks = np.searchsorted(distinct, present)
        fill = float(np.median(ranks))
        return Column(name, kind, "ordinal", "", fill, missing, tuple(found), note=column.note)
    fill = float(np.median(present))
    if kind == "date":
        return Column(name, kind, "date", style, fill, missing, cycles=_cycles(present), note=column.note)
    return Column(name, kind, "number", style, fill, missing, note=column.note)


def _cycles(days: np.ndarray) -> tuple[str, ...]:
    """Return the cycles in which dates have more than one position."""
    return tuple(c for c in CYCLES if len(np.unique(_phase(days, c))) > 1)


def _phase(days: np.ndarray, cycle: str) -> np.ndarray:
    """Return the position (N,) in [0, 1) of days from 1970-01-01 in their year, week or day."""
    whole = np.floor(days)
    if cycle == "day":
        return days - whole
    if cycle == "week":
        return ((whole + 3) % 7 + (days - whole)) / 7  # 1970-01-01 was a Thursday, the week's begin is Monday
    dates = whole.astype(np.int64).astype("datetime64[D]")
    years = dates.astype("datetime64[Y]")
    begin = years.astype("datetime64[D]").astype(np.int64)
    length = (years + 1).astype("datetime64[D]").astype(np.int64) - begin
    return (days - begin) / length


def _waves(days_and_rest: np.ndarray, cycles: tuple[str, ...] = ()) -> np.ndarray:
    """Return columns: days, sine and cosine of each cycle, and the indicator if there is one."""
    X = np.asarray(days_and_rest, np.float64)
    days, parts = X[:, 0], [X[:, :1]]
    for cycle in cycles:
        angle = 2 * np.pi * _phase(days, cycle)
        parts.append(np.stack([np.sin(angle), np.cos(angle)], axis=1))
    return np.hstack([*parts, X[:, 1:]])


def _transformer(recipe: Recipe) -> ColumnTransformer:
    """Return the transformer, fitted on four rows that hold the recipe's statistics.

    The median of the four is the fill; missing values in two of them, where an indicator is wanted, change
    no median.
    """
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder

    steps, rows = [], {}
    for i, column in enumerate(recipe.used):
        texts: Any = np.array(column.categories, dtype=object)
        low = high = column.fill
        absent: Any = np.nan
        step: Any = SimpleImputer(strategy="median", add_indicator=True)
        if column.use == "date":
            step = make_pipeline(step, FunctionTransformer(_waves, kw_args={"cycles": column.cycles}))
        elif column.use == "one_hot":
            step = OneHotEncoder(
                categories=[texts], drop="if_binary", handle_unknown="ignore", sparse_output=False
            )
            low = high = texts[0]
        elif column.use == "ordinal":
            codes = OrdinalEncoder(
                categories=[texts], handle_unknown="use_encoded_value", unknown_value=np.nan
            )
            step = make_pipeline(codes, step)
            low, high = texts[math.floor(column.fill)], texts[math.ceil(column.fill)]
            absent = ""
        cells = [low, high, *([absent] * 2 if column.indicator else [low, high])]
        rows[column.name] = np.array(cells, dtype=object if column.kind == "text" else np.float64)
        steps.append((str(i), step, [column.name]))
    return ColumnTransformer(steps, sparse_threshold=0.0).fit(pd.DataFrame(rows))
