"""What a comparison asks for: the words of a sweep as columns, rows, splits and seeds.

`compare` shows the units that `sweep` makes of the same words: every word that names the data makes rows,
every other one that has several values makes columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from dgpbench.config.derived import num_splits
from dgpbench.config.refusals import check_split
from dgpbench.config.tree import config_folders, groups
from dgpbench.errors import UserError

EXAMPLE = "dgpbench compare model=sgp,dgp2 dataset=boston,energy"


@dataclass(frozen=True)
class Heading:
    """One row or column: its name in the table, and its words."""

    label: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Question:
    """Rows and columns with their words, and how a cell's config is made of them."""

    rows: tuple[Heading, ...]  # none: every dataset that has such runs
    columns: tuple[Heading, ...]
    splits: tuple[int, ...] | None  # None: all of the protocol
    seeds: tuple[int, ...]
    config_dirs: tuple[str, ...]
    make: Callable[[tuple[str, ...]], dict]  # from words to a config, which is not to be changed

    def config(self, row: Heading | None, column: Heading) -> dict:
        """The config of a cell; without a row, with the default dataset."""
        return self.make((*column.words, *(row.words if row else ())))

    def splits_of(self, config: dict) -> tuple[int, ...]:
        """The splits of one cell."""
        if self.splits is None:
            return tuple(range(num_splits(config["dataset"], config["protocol"])))
        for split in self.splits:
            check_split(split, config["dataset"], config["protocol"])
        return self.splits


def ask(words: Sequence[str], config_dirs: Sequence[str] = ()) -> Question:
    """The question that words in the syntax of `sweep` pose; UserError where they cannot be read."""
    from dgpbench.sweep.planner import axes_of, composer, fitting

    if not words:
        raise UserError(f"name what is to be compared, e.g. {EXAMPLE}")
    folders = config_folders(config_dirs)
    axes, splits, seeds = axes_of(words, folders)
    data = {name: values for name, values in axes.items() if name.split(".")[0] == "dataset"}
    rest = {name: values for name, values in axes.items() if name not in data}
    if data and "dataset" not in data:
        raise UserError(f"{next(iter(data))} belongs to a dataset; name it, e.g. dataset=csv")
    known, fit = groups(folders), fitting(axes, config_dirs)
    make = composer(axes, config_dirs)
    return Question(
        tuple(_headings(data, _row_label)) if data else (),
        tuple(dict.fromkeys(_headings(rest, lambda chosen: _column_label(chosen, rest, known), fit))),
        None if splits is None else tuple(dict.fromkeys(splits)),
        tuple(dict.fromkeys(seeds)) or (0,),
        tuple(map(str, config_dirs)),
        cache(lambda words: make(list(words))),
    )


def _headings(
    axes: dict[str, list[str]],
    label: Callable[[dict[str, str]], str],
    fit: Callable[[list[str]], list[str]] = lambda words: words,
) -> list[Heading]:
    found = []
    for values in product(*axes.values()):
        words = fit([f"{name}={value}" for name, value in zip(axes, values, strict=True)])
        found.append(Heading(label(dict(word.split("=", 1) for word in words)), tuple(words)))
    return found


def _row_label(chosen: dict[str, str]) -> str:
    """The dataset, a CSV by its file name; with what else is given of it."""
    name = chosen["dataset"]
    rest = {field: value for field, value in chosen.items() if field != "dataset"}
    if name == "csv" and "dataset.path" in rest:
        return Path(rest["dataset.path"].strip("'\"")).name
    more = [f"{field.partition('.')[2]}={value}" for field, value in rest.items()]
    return ", ".join([name, *more])


def _column_label(chosen: dict[str, str], axes: dict[str, list[str]], known: Sequence[str]) -> str:
    """The values that differ between columns: of a group its option, of a field its last name too."""
    telling = [name for name in chosen if len(axes[name]) > 1]
    if not telling:
        telling += [name for name in ("model", "experiment") if name in chosen][:1]
    parts = [
        chosen[name] if name in known else f"{name.rsplit('.', 1)[-1]}={chosen[name]}" for name in telling
    ]
    return ", ".join(parts) or "default"
