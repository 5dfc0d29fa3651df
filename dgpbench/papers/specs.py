"""Table specs: small yaml files that say what each cell of a published table asks for.

A cell's fields are those of the spec, its row and its column, later ones winning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from dgpbench.config.suggest import did_you_mean
from dgpbench.errors import UserError
from dgpbench.evaluate.metric_table import find_metric
from dgpbench.papers.published import KEYS, LOADER, dataset_names
from dgpbench.report import result_table

FOLDER = Path(__file__).resolve().parent / "specs"
WORDS = FOLDER.parent / "words.yaml"  # tables by another number, and those without numbers


@dataclass(frozen=True)
class Place(result_table.Place):
    """Place of one cell, with the published number beside it."""

    experiment: str | None = None  # its name; None where dgpbench has none
    format: str = ".2f"
    case: str | None = None  # of `python -m benchmarks`, for tables of step times
    system: str | None = None
    published: dict = field(default_factory=dict)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The settings of `dgpbench run`, without the dataset."""
        return (*([f"experiment={self.experiment}"] if self.experiment else ()), *self.overrides)

    @property
    def runs(self) -> bool:
        """Whether dgpbench can run this: an experiment is named, or a model among the overrides."""
        return bool(self.experiment) or any(word.startswith("model=") for word in self.overrides)

    @property
    def command(self) -> str | None:
        return f"python -m benchmarks --cases {self.case} --systems {self.system}" if self.case else None


# what spec, row and column may say of a cell, with the default
CELL_FIELDS = {
    field.name: field.default
    for field in fields(Place)
    if field.name not in ("row", "column", "published", "config_dirs")
}


@dataclass(frozen=True)
class Spec(result_table.Spec):
    """A published table: its cells by row and column, and how it is shown."""

    places: Mapping[tuple[str, str], Place]
    ours: str = "records"  # or perf
    italics: bool = False  # where the median Shapiro W is below 0.99
    blank_above: float | None = None
    minus_infinity: float | None = -1000.0  # smaller values are shown as minus infinity
    board: bool = False  # also shown as a leaderboard
    footers: tuple[str, ...] = ()
    printed_footers: dict = field(default_factory=dict)
    variants: dict[str, dict] = field(default_factory=dict)
    explained: tuple[dict, ...] = ()  # cells (rows, columns, of), why, and the variant whose runs show it
    notes: tuple[str, ...] = ()
    lacks: str | None = None  # said of a table of which nothing is run
    source: str | None = None  # of the published numbers
    chosen: tuple[str, ...] = ()  # variants in force
    base: Spec | None = None  # the table itself, where a variant is in force


PUBLISHED_FIELDS = {*KEYS, "error", "error_divisor", "scale"}
NOT_IN_FILE = {"name", "places", "config_dirs", "corrected_errors", "source", "chosen", "base"}
OWN_FIELDS = {field.name for field in fields(Spec)} - NOT_IN_FILE | {"published"}
VARIANT_FIELDS = {"suffix", "metric", "better", "units", "unpublished", "about"}


def names() -> list[str]:
    """The tables there are, thesis chapters first."""
    found = [path.stem for path in FOLDER.glob("*.yaml")]
    return sorted(found, key=lambda name: (name[0] not in "S", not name[0].isdigit(), name))


def load(name: str, variants: Sequence[str] = (), config_dirs: Sequence[str] = ()) -> Spec:
    """The spec of a table by its name, or from a user's own yaml file, with the named variants in force.

    `config_dirs` are folders in which names of the user's own models, datasets and experiments are found.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else _packaged(name)
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), LOADER)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"cannot read the table {path}: {' '.join(str(error).split())}") from None
    spec = parse(path.stem, tree)
    for variant in variants:
        spec = with_variant(spec, variant)
    if not config_dirs:
        return spec
    dirs = tuple(config_dirs)
    places = {at: replace(place, config_dirs=dirs) for at, place in spec.places.items()}
    return replace(spec, places=places, config_dirs=dirs)


def other_tables() -> dict[str, dict[str, str]]:
    """Tables without a spec of their own: `same` names another, or `title` and `why` say what it holds."""
    return yaml.load(WORDS.read_text(encoding="utf-8"), LOADER)


def _packaged(name: str) -> Path:
    known = {stem.lower(): stem for stem in names()}
    if name.lower() not in known and (other := other_tables().get(name.lower())):
        if "why" in other:
            raise UserError(f"table {name} has nothing to compare; it holds {other['why']}")
        return FOLDER / f"{other['same']}.yaml"
    if name.lower() not in known:
        hint = did_you_mean(name, [*known.values(), *other_tables(), *dataset_names()])
        raise UserError(
            f"no table or dataset '{name}'{hint}; `dgpbench tables` and `dgpbench data list` list them, or "
            "name a yaml file of your own"
        )
    return FOLDER / f"{known[name.lower()]}.yaml"


def parse(name: str, tree: dict[str, Any]) -> Spec:
    """A spec from its yaml tree; UserError where a field is unknown or one that is needed is missing."""
    if not isinstance(tree, dict):
        raise UserError(f"table {name}: the file must hold fields such as title, rows and columns")
    for key, kind in (("title", str), ("units", str), ("rows", list), ("columns", list)):
        if not isinstance(tree.get(key), kind) or not tree[key]:
            raise UserError(f"table {name}: {key} is missing or not a {'list' if kind is list else 'text'}")
    _check_fields(f"table {name}", tree, OWN_FIELDS | set(CELL_FIELDS))
    _check_fields(f"table {name}, published", tree.get("published", {}), PUBLISHED_FIELDS)
    for variant, change in tree.get("variants", {}).items():
        _check_fields(f"table {name}, variant {variant}", change, VARIANT_FIELDS)
    base = {key: value for key, value in tree.items() if key in CELL_FIELDS}
    published = tree.get("published", {})
    rows = [_axis(name, entry) for entry in tree["rows"]]
    columns = [_axis(name, entry, {"without"}) for entry in tree["columns"]]
    for column in columns:
        if gone := set(column.get("without", ())) - {row["label"] for row in rows}:
            raise UserError(
                f"table {name}, {column['label']}: without names no row: {', '.join(sorted(gone))}"
            )
    places = {}
    for row in rows:
        for column in columns:
            merged = {**CELL_FIELDS, **base, **_fields(row), **_fields(column)}
            merged["overrides"] = tuple(map(str, (*row.get("overrides", ()), *column.get("overrides", ()))))
            if row["label"] in column.get("without", ()):  # not run there
                merged |= {"experiment": None, "overrides": ()}
            address = _published_address(published, row, column)
            place = Place(row["label"], column["label"], **merged, published=address)
            places[row["label"], column["label"]] = place
    rest = {key: tree[key] for key in OWN_FIELDS - {"rows", "columns", "published"} if key in tree}
    for key in ("footers", "notes", "explained"):
        rest[key] = tuple(rest.get(key, ()))
    spec = Spec(
        name=name,
        places=places,
        source=published.get("source"),
        rows=tuple(row["label"] for row in rows),
        columns=tuple(c["label"] for c in columns),
        **rest,
    )
    _check_spec(spec)
    return spec


def _check_spec(spec: Spec) -> None:
    """UserError where fields do not fit together."""
    choices: dict[str, tuple[set[str | None], Sequence[str]]] = {
        "bold": ({spec.bold}, ("row", "column", "none")),
        "better": ({place.better for place in spec.places.values()}, ("higher", "lower")),
        "footers": (set(spec.footers), ("median_difference", "ranks")),
        "baseline": ({spec.baseline} - {None}, spec.columns),
    }
    for name, (given, allowed) in choices.items():
        if given - set(allowed):
            raise UserError(f"table {spec.name}: {name} must be one of: {', '.join(allowed)}")
    for entry in spec.explained:
        _check_fields(f"table {spec.name}, explained", entry, {"rows", "columns", "of", "variant", "why"})
        for name, allowed in (("rows", spec.rows), ("columns", spec.columns)):
            if set(entry.get(name, ())) - set(allowed):
                raise UserError(f"table {spec.name}: explained {name} must be of: {', '.join(allowed)}")
        explained, by = entry.get("of"), entry.get("variant")
        same = explained == by and explained is not None
        if {explained, by} - {None, *spec.variants} or same or not entry.get("why"):
            raise UserError(
                f"table {spec.name}: explained needs why, and as of and variant one of: {[*spec.variants]}"
            )
    for metric in {place.metric for place in spec.places.values() if place.metric}:
        try:
            find_metric(metric)
        except UserError as error:
            raise UserError(f"table {spec.name}: {error}") from None
    if "median_difference" in spec.footers and not spec.baseline:
        raise UserError(
            f"table {spec.name}: the footer median_difference needs a baseline, one of its columns"
        )


def _axis(name: str, entry: str | dict, more: Iterable[str] = ()) -> dict:
    if not isinstance(entry, str | dict):
        raise UserError(f"table {name}: '{entry}' is neither a dataset nor a mapping such as {{label: ...}}")
    entry = {"dataset": entry} if isinstance(entry, str) else dict(entry)
    if not entry.setdefault("label", entry.get("dataset")):
        raise UserError(f"table {name}: {entry} needs a label")
    _check_fields(f"table {name}, {entry['label']}", entry, {"label", "published", *more, *CELL_FIELDS})
    _check_fields(f"table {name}, {entry['label']}", entry.get("published") or {}, PUBLISHED_FIELDS)
    return entry


def _fields(entry: dict) -> dict:
    return {key: value for key, value in entry.items() if key in CELL_FIELDS}


def _published_address(shared: dict, row: dict, column: dict) -> dict:
    """Address of the published cell; None if row and column name none, or one says `published: null`."""
    given = [entry["published"] for entry in (row, column) if "published" in entry]
    if not given or None in given:
        return {}
    own = {"dataset": row["dataset"]} if row.get("dataset") else {}
    out = {**own, **shared}
    for part in given:
        out.update(part)
    return out


def _check_fields(where: str, given: dict, allowed: set[str]) -> None:
    for key in given:
        if key not in allowed:
            raise UserError(f"{where}: unknown field '{key}'{did_you_mean(key, allowed)}")


def with_variant(spec: Spec, name: str) -> Spec:
    """Spec of the same table with another set of experiments, or another metric of the same records."""
    if name not in spec.variants:
        offered = did_you_mean(name, spec.variants) if spec.variants else "; it has none"
        raise UserError(f"table {spec.name} has no variant '{name}'{offered}")
    change = spec.variants[name]
    places = {}
    for key, place in spec.places.items():
        experiment = f"{place.experiment}{change.get('suffix', '')}" if place.experiment else None
        published = {} if change.get("unpublished") else place.published
        changed = {name: change[name] for name in ("metric", "better") if name in change}
        places[key] = replace(place, experiment=experiment, published=published, **changed)
    units = change.get("units", spec.units)
    return replace(spec, places=places, units=units, chosen=(*spec.chosen, name), base=spec.base or spec)
