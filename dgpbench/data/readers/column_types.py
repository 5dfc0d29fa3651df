"""Cells of a user's table as numbers, dates, switches or text, each column read in one way throughout.

The kind of a column and the way its text is written follow from all rows. No other statistic is taken here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

KINDS = ("number", "switch", "date", "text")
STYLES = ("", "point", "comma", "dmy", "mdy")
SHARE = 0.9  # of the values present: so many must be numbers, or dates, to make the column one of these
MISSING = frozenset(
    ("", "na", "n/a", "#n/a", "<na>", "nan", "nat", "null", "none", "nil", "missing", "?", "-", "--", ".")
    + ("#div/0!", "#name?", "#null!", "#num!", "#ref!", "#value!")
)
SWITCHES = {
    **dict.fromkeys(("true", "t", "yes", "y", "on"), 1.0),
    **dict.fromkeys(("false", "f", "no", "n", "off"), 0.0),
}
_CURRENCY = r"[$€£¥₹]|USD|EUR|GBP|CHF|JPY|CAD|AUD|INR"
_WRAPPED = re.compile(rf"([+-]?)(?:(?:{_CURRENCY})\s*)?([+-]?[\d.,].*?)\s*(?:{_CURRENCY}|%)?")
_EXPONENT = r"(?:[eE][+-]?\d{1,3})?"
_FORMS = {
    "point": re.compile(rf"[+-]?(?:(?:[1-9]\d{{0,2}}(?:,\d{{3}})+|\d+)(?:\.\d*)?|\.\d+){_EXPONENT}"),
    "comma": re.compile(rf"[+-]?(?:(?:[1-9]\d{{0,2}}(?:\.\d{{3}})+|\d+)(?:,\d*)?|,\d+){_EXPONENT}"),
}
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_GROUPED = re.compile(r"(?<=\d)[\s'’](?=\d{3}(?!\d))")
_THREE = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
_TIME = (
    r"(?:[T\s]+(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*([AaPp][Mm])?\s*(Z|UTC|[+-]\d{2}:?\d{2})?)?"
)
_ISO = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})" + _TIME)
_ENDING = re.compile(r"(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})" + _TIME)
_DAY_NAME = re.compile(r"(\d{1,2})[\s.-]+([A-Za-z]{3,9})[\s.,-]+(\d{4})" + _TIME)
_NAME_DAY = re.compile(r"([A-Za-z]{3,9})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})" + _TIME)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY = 86_400_000_000  # microseconds
_EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Typed:
    """A column of a table: floats with NaN where missing, or for text the codes of its sorted `levels`."""

    name: str
    kind: str
    style: str  # how its text writes numbers (point, comma) or dates (dmy, mdy)
    values: np.ndarray  # N, float64
    levels: tuple[str, ...] = ()
    note: str = ""  # how it was read, where another reading is possible
    example: str = ""  # a text that is no plain number
    odd: int = 0  # cells that are neither missing nor what the column has

    @property
    def missing(self) -> int:
        return int(np.isnan(self.values).sum())

    def texts(self) -> np.ndarray:
        """The text of every row (N,), empty where missing."""
        known = np.array([*self.levels, ""], dtype=object)
        return known[np.where(np.isnan(self.values), len(self.levels), self.values).astype(int)]


def parse_number(text: str, style: str = "point") -> float:
    """Return the number that a text writes, NaN if it writes none.

    Currency signs, percent signs and separators of thousands are ignored.
    """
    body = _body(text)
    if not _FORMS[style].fullmatch(body):
        return np.nan
    thousands, decimal = (",", ".") if style == "point" else (".", ",")
    value = float(body.replace(thousands, "").replace(decimal, "."))
    return value if np.isfinite(value) else np.nan


def _body(text: str) -> str:
    plain = _GROUPED.sub("", text.replace("−", "-").replace("\xa0", " ").replace("\u202f", " "))
    match = _WRAPPED.fullmatch(plain)
    return match[1] + match[2] if match else plain


def parse_day(text: str, order: str = "dmy") -> float:
    """Return the days from 1970-01-01 to a date (UTC, with fraction), NaN if the text is no date.

    ISO dates and dates with the month's English name are unambiguous; `order` (dmy or mdy) reads the others.
    """
    if match := _ISO.fullmatch(text):
        year, month, day = match[1], match[3], match[4]
        clock = match.groups()[4:]
    elif match := _ENDING.fullmatch(text):
        day, month = (match[1], match[3]) if order == "dmy" else (match[3], match[1])
        year, clock = match[4], match.groups()[4:]
        if len(year) == 2:
            year = ("20" if int(year) < 70 else "19") + year
    elif (match := _DAY_NAME.fullmatch(text)) or (match := _NAME_DAY.fullmatch(text)):
        day, name = (match[1], match[2]) if match[1].isdecimal() else (match[2], match[1])
        if name[:3].lower() not in _MONTHS:
            return np.nan
        year, month, clock = match[3], str(_MONTHS.index(name[:3].lower()) + 1), match.groups()[3:]
    else:
        return np.nan
    try:
        return _days(datetime(int(year), int(month), int(day)) + _clock(*clock))
    except (ValueError, OverflowError):
        return np.nan


def _clock(
    hour: str | None, minute: str | None, second: str | None, fraction: str | None, half: str | None,
    zone: str | None,
) -> timedelta:  # fmt: skip
    """Return the time of day in UTC; ValueError if there is no such time."""
    if hour is None or minute is None:
        return timedelta()
    h, m, s = int(hour), int(minute), int(second or 0)
    if h > 23 or m > 59 or s > 59 or (half and not 1 <= h <= 12):
        raise ValueError(hour)
    if half:
        h = h % 12 + 12 * (half.lower() == "pm")
    micro = int((fraction or "0").ljust(6, "0")[:6])
    offset = timedelta()
    if zone and zone[0] in "+-":
        digits = zone[1:].replace(":", "")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:])) * (-1 if zone[0] == "-" else 1)
    return timedelta(hours=h, minutes=m, seconds=s, microseconds=micro) - offset


def _days(moment: datetime) -> float:
    rest = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return moment.toordinal() - _EPOCH + (rest * 1_000_000 + moment.microsecond) / _DAY


def cell_text(value: Any) -> str:
    """Return a cell as stripped text, empty if it is missing; numbers read back as the same numbers."""
    if value is None or value is False or value is True:
        return "" if value is None else str(value).lower()
    if isinstance(value, str):
        text = value.strip()
        return "" if text.lower() in MISSING else text
    if isinstance(value, (float, np.floating)):
        if not np.isfinite(value):
            return ""
        text = str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
        return text + "0" if _THREE.fullmatch(text) else text  # cannot be taken for thousands
    if isinstance(value, np.bool_):
        return str(bool(value)).lower()
    if isinstance(value, datetime):
        if value != value:  # pandas' NaT
            return ""
        if value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        return value.isoformat(sep=" ")
    return cell_text(str(value))


def read_columns(frame: pd.DataFrame, delimiter: str | None = None) -> list[Typed]:
    """Return every column of a table with its kind; `delimiter` is the one of its file."""
    prepared = [_factors(frame.iloc[:, i]) for i in range(frame.shape[1])]
    votes = {"point": 0, "comma": 0}
    for factors in prepared:
        if isinstance(factors, _Factors) and (style := factors.own_style()):
            votes[style] += 1
    usual = max(votes, key=votes.__getitem__) if votes["point"] != votes["comma"] else None
    return [
        _typed(str(name), factors, usual, delimiter) if isinstance(factors, _Factors) else
        Typed(str(name), factors[0], "", factors[1])
        for name, factors in zip(frame.columns, prepared, strict=True)
    ]  # fmt: skip


class _Factors:
    """Distinct texts of a column, how many rows have each, and the code of every row (-1: missing)."""

    def __init__(self, texts: np.ndarray, category: bool) -> None:
        import pandas as pd

        self.codes, uniques = pd.factorize(np.where(texts == "", None, texts))
        self.uniques = [str(text) for text in uniques]
        self.counts = np.bincount(self.codes[self.codes >= 0], minlength=len(self.uniques))
        self.category = category  # the file says that it has categories

    def parsed(self, read) -> tuple[np.ndarray, float]:
        """Values of the distinct texts, and the share of the rows present that have one."""
        values = np.array([read(text) for text in self.uniques], dtype=np.float64)
        return values, float(self.counts[~np.isnan(values)].sum()) / max(1, self.counts.sum())

    def rows(self, values: np.ndarray) -> np.ndarray:
        return np.append(values, np.nan)[self.codes]

    def own_style(self) -> str | None:
        """The one style that settles how the column's numbers are written; None where either fits."""
        votes, numbers = dict.fromkeys(_FORMS, 0), 0
        for text, count in zip(self.uniques, self.counts, strict=True):
            body = _body(text)
            fits = [style for style, form in _FORMS.items() if form.fullmatch(body)]
            numbers += int(count) * bool(fits)
            if len(fits) == 1:
                votes[fits[0]] += int(count)
        if self.category or not any(votes.values()) or numbers < SHARE * self.counts.sum():
            return None
        return max(votes, key=votes.__getitem__)


def _factors(series: pd.Series) -> _Factors | tuple[str, np.ndarray]:
    """A column's distinct texts; or kind and values where its type tells."""
    import pandas as pd

    kind = series.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return _Factors(_texts(series.astype(object)), True)
    if pd.api.types.is_bool_dtype(kind):
        return "switch", floats(series)
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind):
        return "number", floats(series)
    if pd.api.types.is_datetime64_any_dtype(kind):
        return "date", _moments(series)
    if pd.api.types.is_timedelta64_dtype(kind):
        return "number", series.dt.total_seconds().to_numpy(np.float64)
    return _Factors(_texts(series), False)


def floats(series: pd.Series) -> np.ndarray:
    """Return a numeric series as float64; what is not finite is missing, which is one NaN only."""
    values = series.astype("Float64").to_numpy(np.float64, na_value=np.nan)
    return np.where(np.isfinite(values), values, np.nan)


def _moments(series: pd.Series) -> np.ndarray:
    if series.dt.tz is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    absent = series.isna().to_numpy()
    micro = series.to_numpy("datetime64[us]").astype(np.int64)
    return np.where(absent, np.nan, micro // _DAY + (micro % _DAY) / _DAY)


def _texts(series: pd.Series) -> np.ndarray:
    absent = series.isna().to_numpy()
    found = np.array([cell_text(value) for value in series], dtype=object)
    found[absent] = ""
    return found


def _typed(name: str, factors: _Factors, usual: str | None, delimiter: str | None) -> Typed:
    uniques = factors.uniques
    if not uniques:
        return Typed(name, "number", "point", factors.rows(np.empty(0)))
    lower = {text.lower() for text in uniques}
    if lower <= SWITCHES.keys() and len({SWITCHES[text] for text in lower}) == 2:
        values = np.array([SWITCHES[text.lower()] for text in uniques])
        return Typed(name, "switch", "", factors.rows(values), example=uniques[0])
    if not factors.category:
        for attempt in (_as_number(name, factors, usual, delimiter), _as_date(name, factors)):
            if attempt is not None:
                return attempt
    return _as_text(name, factors)


def _as_text(name: str, factors: _Factors) -> Typed:
    levels = sorted(factors.uniques)
    place = {text: float(i) for i, text in enumerate(levels)}
    ranks = np.array([place[text] for text in factors.uniques], dtype=np.float64)
    return Typed(name, "text", "", factors.rows(ranks), tuple(levels), example=(levels or [""])[0][:30])


def read_texts(series: pd.Series) -> Typed:
    """Return a column as text, whatever it holds: the labels of classes."""
    return _as_text(str(series.name), _Factors(_texts(series.astype(object)), True))


def _as_number(name: str, factors: _Factors, usual: str | None, delimiter: str | None) -> Typed | None:
    style, note = factors.own_style(), ""
    if style is None:
        style = usual or "point"
        doubtful = [t for t in factors.uniques if _differ(t)]
        if doubtful and usual is None and delimiter == ";" and "," in doubtful[0]:
            style = "comma"
        if doubtful:
            note = f"{doubtful[0]} read as {parse_number(doubtful[0], style):g}"
    values, share = factors.parsed(lambda text: parse_number(text, style))
    if share < SHARE:
        return None
    if style == "comma" and not note and any("," in text or "." in text for text in factors.uniques):
        note = "decimal comma"
    example = next((text for text in factors.uniques if not _PLAIN.fullmatch(text)), "")
    return _read(name, "number", style, factors, values, note, example)


def _differ(text: str) -> bool:
    point, comma = parse_number(text, "point"), parse_number(text, "comma")
    return point != comma and not np.isnan(point) and not np.isnan(comma)


def _as_date(name: str, factors: _Factors) -> Typed | None:
    first = second = 0
    open_order = False
    for text, count in zip(factors.uniques, factors.counts, strict=True):
        if match := _ENDING.fullmatch(text):
            a, b = int(match[1]), int(match[3])
            first += int(count) * (a > 12 or match[2] == ".")
            second += int(count) * (b > 12)
            open_order |= a != b
    order = "mdy" if second > first else "dmy"
    values, share = factors.parsed(lambda text: parse_day(text, order))
    if share < SHARE:
        return None
    note = ""
    if open_order and not first and not second:
        note = "read as day/month/year, although month/day/year fits too: write 2020-12-31 to be sure"
    return _read(name, "date", order, factors, values, note, factors.uniques[0])


def _read(
    name: str, kind: str, style: str, factors: _Factors, values: np.ndarray, note: str, example: str
) -> Typed:
    """Return a column of numbers or dates, with a note on the cells that are none and count as missing."""
    wrong = np.isnan(values)
    odd = int(factors.counts[wrong].sum())
    if odd:
        example = factors.uniques[int(np.flatnonzero(wrong)[0])]
        text = f"no {kind} in {odd} cells, which count as missing, e.g. {example[:30]!r}"
        note = f"{note}; {text}" if note else text
    return Typed(name, kind, style, factors.rows(values), note=note, example=example[:30], odd=odd)


def read_like(series: pd.Series, kind: str, style: str) -> np.ndarray:
    """Return new cells read as the column of a given kind and style: floats (N,), or texts if it has text."""
    factors = _factors(series)
    if kind == "text":
        return _texts(series.astype(object))
    if not isinstance(factors, _Factors):
        found, values = factors
        return values if (found == "date") == (kind == "date") else np.full(len(values), np.nan)
    readers: dict[str, Any] = {
        "number": lambda text: parse_number(text, style or "point"),
        "date": lambda text: parse_day(text, style or "dmy"),
        "switch": lambda text: SWITCHES.get(text.lower(), parse_number(text)),
    }
    return factors.rows(factors.parsed(readers[kind])[0])


def unique_names(names: Sequence[Any]) -> list[str]:
    """Return names of columns as distinct texts: a repeated one is numbered, an empty one is its place."""
    found: dict[str, None] = {}
    for i, given in enumerate(names):
        base = (given.strip() if isinstance(given, str) else cell_text(given)) or f"column {i}"
        base = base[:200]
        name, count = base, 2
        while name in found:
            name, count = f"{base} ({count})", count + 1
        found[name] = None
    return list(found)
