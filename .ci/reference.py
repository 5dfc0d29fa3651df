"""Hook of mkdocs: the generated parts of the reference, from argparse, the schema, conf/ and the catalogue.

A page names the part it wants in a comment of its own, such as `<!-- generated: commands -->`.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module

from dgpbench.cli.registry import commands
from dgpbench.config import schema
from dgpbench.config.tree import conf_dir, fields, main_fields
from dgpbench.data.catalogue import Entry, catalogue
from dgpbench.evaluate.metric_table import KINDS, known_metrics
from dgpbench.inference.variational import Variational

MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.M)


def on_page_markdown(markdown: str, **_) -> str:
    """Replace the comments of a page by the parts that they name."""
    return MARK.sub(lambda mark: PARTS[mark[1]]() + "\n", markdown)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def plain(text: str) -> str:
    """Return text whose special characters Markdown leaves alone."""
    return re.sub(r"([*_<>\[\]])", r"\\\1", " ".join(text.split()))


def command_part() -> str:
    """Return every command with its usage, arguments and options."""
    os.environ["COLUMNS"] = "110"  # the width of usage lines
    parser = argparse.ArgumentParser(prog="dgpbench")
    subparsers = parser.add_subparsers()
    for name, (module, _) in commands().items():
        if name not in subparsers.choices:
            import_module(module).add_parser(subparsers)
    return "\n\n".join(part for name in commands() for part in command(subparsers.choices[name], 2))


def command(parser: argparse.ArgumentParser, level: int) -> list[str]:
    """Return the Markdown of a command, then of its own commands."""
    usage = parser.format_usage().rstrip().replace("\n" + " " * 7, "\n").removeprefix("usage: ")
    parts = [f"{'#' * level} `{parser.prog}`", plain(parser.description or ""), f"```text\n{usage}\n```"]
    rows, inner = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            inner = [part for each in action.choices.values() for part in command(each, level + 1)]
        elif action.help != argparse.SUPPRESS and "--help" not in action.option_strings:
            rows.append((code(argument(action)), plain((action.help or "") % values(action))))
    return [part for part in (*parts, table(("Argument", "Meaning"), rows) if rows else "", *inner) if part]


def argument(action: argparse.Action) -> str:
    """Return an argument as it is typed."""
    metavar = action.metavar or (
        ",".join(map(str, action.choices)) if action.choices else action.dest.upper()
    )
    value = " ".join(metavar) if isinstance(metavar, tuple) else str(metavar)
    if not action.option_strings:
        return value
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {value}")


def values(action: argparse.Action) -> dict:
    """Return what a help text may refer to."""
    return vars(action) | {"choices": ", ".join(map(str, action.choices or ()))}


def setting_part() -> str:
    """Return every setting: the common ones by section, then those of single options."""
    types: dict[str, schema.Field] = dict(schema.TOP)
    types |= {f"{part}.{name}": f for part, found in schema.CLOSED.items() for name, f in found.items()}
    types |= {f"model.{name}": field for name, field in schema.MODEL.items()}
    own = schema.INFERENCE | Variational.fields
    types |= {f"inference.{name}": field for name, field in own.items()}
    sections: dict[str, list[tuple[str, str, str]]] = {}
    for row in main_fields():
        sections.setdefault(row[0].partition(".")[0] if "." in row[0] else "Top level", []).append(row)
    titles = {"model": "model (GP models)", "inference": "inference (variational methods)"}
    parts = [
        f"## {titles.get(name, name)}\n\n{setting_table(rows, types)}" for name, rows in sections.items()
    ]
    parts.append("## Settings of single options")
    common = {name for name, _, _ in main_fields()}
    for group in ("dataset", "model", "inference", "likelihood", "launcher", "tracker"):
        for path in sorted((conf_dir() / group).glob("*.yaml")):
            rows = [row for row in fields(path, f"{group}.") if row[2] and row[0] not in common]
            if rows and group != "model" or any(row[0] not in types for row in rows):
                rows = [row for row in rows if not row[0].endswith(".name")]
                option = f"{group}={path.stem}" if path.stem[0] != "_" else f"{group}: all of {path.stem[1:]}"
                parts.append(f"### {option}\n\n{setting_table(rows, {})}")
    return "\n\n".join(parts)


def setting_table(rows: Iterable[tuple[str, str, str]], types: dict[str, schema.Field]) -> str:
    """Return a table of settings; the column of values only where their types are known."""
    rows = list(rows)
    if not types:
        return table(
            ("Setting", "Default", "Meaning"), [(code(n), code(v), plain(text)) for n, v, text in rows]
        )
    body = [
        (code(name), code(value), types[name].describe() if name in types else "", plain(text))
        for name, value, text in rows
    ]
    return table(("Setting", "Default", "Values", "Meaning"), body)


def dataset_part() -> str:
    """Return the datasets of the catalogue, then the traps of each."""
    entries = list(catalogue().values())
    head = ("Dataset", "Title", "Task", "Rows", "Inputs", "Classes")
    text = table(head, [dataset_row(entry) for entry in entries])
    traps = [f"- {code(entry.name)}: {plain('; '.join(entry.traps))}" for entry in entries if entry.traps]
    return "\n\n".join([text, "## Known traps", "\n".join(traps)])


def dataset_row(entry: Entry) -> tuple[str, ...]:
    size = [f"{n:,}" if n else "–" for n in (entry.n, entry.d)]
    return code(entry.name), plain(entry.title), entry.task, *size, str(entry.n_classes or "–")


def metric_part() -> str:
    """Return the metrics with unit, direction and tasks."""
    rows = [
        (code(one.name), plain(one.title), plain(one.units) or "–", one.better or "neither", tasks(one.tasks))
        for one in known_metrics(()).values()
    ]
    return table(("Metric", "Title", "Unit", "Better", "Tasks"), rows)


def tasks(names: Sequence[str]) -> str:
    return "all" if set(names) == set(KINDS) else ", ".join(names)


PARTS: dict[str, Callable[[], str]] = {
    "commands": command_part,
    "settings": setting_part,
    "datasets": dataset_part,
    "metrics": metric_part,
}
