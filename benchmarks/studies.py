"""The studies beside the step times, each with a table, a csv file and all its numbers as JSON."""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.cases import select
from benchmarks.tables import Table, markdown_table, show_table
from dgpbench.errors import UserError

Note = Callable[[str], None]


@dataclass(frozen=True)
class Findings:
    """Findings of a study: everything for the JSON file, rows for the csv file, tables to read."""

    numbers: dict
    rows: Sequence[dict]
    tables: Sequence[Table]
    plot: Callable[[Path], None] | None = None


def run(name: str, args: argparse.Namespace, folder: Path, note: Note) -> int:
    """Make a study and write NAME.json, NAME.csv, NAME.md (and NAME.png) into the folder."""
    from rich.console import Console

    from dgpbench.data.atomic_files import write_json

    folder.mkdir(parents=True, exist_ok=True)
    found = STUDIES[name](args, folder, note)
    facts = {"study": name, "finished": datetime.now(UTC).isoformat(timespec="seconds")} | _machine()
    shown = {"tables": [asdict(table) for table in found.tables]}  # benchmarks/measured/ keeps such files
    write_json(folder / f"{name}.json", facts | {"threads": args.threads} | shown | found.numbers)
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(key for row in found.rows for key in row)))
        writer.writeheader()
        writer.writerows(found.rows)
    about = ", ".join(f"{key} {value}" for key, value in (facts | {"threads": args.threads or "all"}).items())
    (folder / f"{name}.md").write_text("\n".join([about, "", *map(markdown_table, found.tables)]))
    for table in found.tables:
        show_table(table, Console())
    written = [f"{name}.{kind}" for kind in ("json", "csv", "md")]
    if found.plot:
        found.plot(folder / f"{name}.png")
        written.append(f"{name}.png")
    note(f"written to {folder}: {', '.join(written)}")
    return 0


def _machine() -> dict:
    from dgpbench.machine import git_commit, processor

    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return {"processor": processor(), "cores": os.cpu_count(), "load": load, "git_commit": git_commit()}


def _race(args: argparse.Namespace, folder: Path, note: Note) -> Findings:
    from benchmarks import race, race_tables
    from benchmarks.kept import Kept
    from benchmarks.systems import interpreters

    names = select(args.systems, list(race.RACERS), "system")
    if not any(race.RACERS[name].library == "dgpbench" for name in names):
        names = [race.OURS, *names]
    datasets = list(dict.fromkeys(word for given in args.cases for word in given.split(","))) or race.DATASETS
    if args.threads not in (None, 1):
        raise UserError("the race is on one thread each; leave --threads out")
    kept, pythons = Kept(folder / "race.runs.jsonl"), interpreters(args.peers_python)
    runs = race.measure(datasets, names, args.rounds or race.SPLITS, args.seconds, pythons, kept, note)
    tables = [race_tables.scores(runs)]
    for ours in (name for name in names if name.startswith("dgpbench") and name != "dgpbench-sgp"):
        tables.append(race_tables.verdicts(runs, ours))
    settings = {name: race.RACERS[name].settings for name in names}
    plot = lambda path: race_tables.draw(runs, path)  # noqa: E731
    return Findings({"systems": settings, "runs": runs}, race_tables.rows(runs), tables, plot)


def _accuracy(args: argparse.Namespace, folder: Path, note: Note, *, choice: bool) -> Findings:
    from benchmarks import accuracy
    from benchmarks.kept import Kept
    from benchmarks.race import is_race

    if not choice and is_race(args.systems):
        return _race(args, folder, note)

    default = accuracy.CHOICE if choice else accuracy.RACE
    datasets = list(dict.fromkeys(word for given in args.cases for word in given.split(",")))
    datasets = datasets or list(default["datasets"])
    chosen = select(args.systems, list(accuracy.SYSTEMS), "system") if args.systems else default["systems"]
    runs = accuracy.measure(
        datasets,
        chosen,
        args.rounds or 1,
        args.seconds or default["seconds"],
        [f"threads={args.threads}"] if args.threads else [],
        note,
        Kept(folder / f"{'choice' if choice else 'time-to-accuracy'}.runs.jsonl"),
        choice=choice,
    )
    settings = {name: accuracy.SYSTEMS[name] for name in chosen}
    table = (accuracy.choice_table if choice else accuracy.race_table)(runs)
    return Findings({"systems": settings, "runs": runs}, accuracy.rows(runs), [table])


def _scaling(args: argparse.Namespace, folder: Path, note: Note) -> Findings:
    from benchmarks import growth
    from dgpbench.machine import usable_cores

    parts = select(args.cases, growth.PARTS, "part")
    precisions = select(args.systems, ("float64", "mixed"), "precision")
    threads = args.threads or usable_cores()
    axes = [part for part in parts if part in growth.AXES]
    rounds, seconds = args.rounds or 5, args.seconds or 0.5
    steps = growth.step_rows(axes, precisions, rounds, seconds, threads, note)
    sources = [part.partition("-")[2] for part in parts if part not in growth.AXES]
    rows = growth.data_rows(sources, max(5.0, seconds), threads, note)
    tables = [growth.step_table(steps)] if steps else []
    tables += [growth.rows_table(rows)] if rows else []
    plot = lambda path: growth.draw(steps, rows, path)  # noqa: E731
    return Findings({"steps": steps, "rows": rows}, [*steps, *rows], tables, plot)


def _evaluation(args: argparse.Namespace, folder: Path, note: Note) -> Findings:
    from benchmarks import evaluation

    models = select(args.cases, list(evaluation.MODELS), "model")
    extra = [f"threads={args.threads}"] if args.threads else []
    found = evaluation.measure(models, args.rounds or 3, extra, note)
    return Findings({"models": found}, found, [evaluation.table(found)])


def _posteriors(args: argparse.Namespace, folder: Path, note: Note) -> Findings:
    from benchmarks import posteriors
    from dgpbench.machine import usable_cores

    methods = select(args.systems, posteriors.METHODS, "method")
    threads = args.threads or usable_cores()
    rows = posteriors.measure(methods, args.rounds or 7, args.seconds or 0.7, threads, note)
    return Findings({"methods": rows}, rows, [posteriors.table(rows)])


def _sampling(args: argparse.Namespace, folder: Path, note: Note) -> Findings:
    from benchmarks import sampling

    cases = select(args.cases, list(sampling.CASES), "case")
    systems = select(args.systems, list(sampling.SYSTEMS), "system")
    turn = int(args.seconds or 100)
    rows = sampling.measure(cases, systems, args.rounds or 10, turn, args.threads or 1, note)
    return Findings({"rows": rows}, rows, [sampling.table(rows)])


STUDIES: dict[str, Callable[[argparse.Namespace, Path, Note], Findings]] = {
    "time-to-accuracy": lambda args, folder, note: _accuracy(args, folder, note, choice=False),
    "choice": lambda args, folder, note: _accuracy(args, folder, note, choice=True),
    "scaling": _scaling,
    "evaluation": _evaluation,
    "posteriors": _posteriors,
    "sampling": _sampling,
}
