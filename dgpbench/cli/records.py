"""Commands on stored records: `dgpbench verify`, `rescore`, `merge`, `submit` and `gc`."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from dgpbench.cli.arguments import (
    add_allow,
    add_allow_model,
    add_config_dir,
    add_results,
    existing_results,
    note_of,
)
from dgpbench.errors import Interrupted, UserError
from dgpbench.plain_text import visible
from dgpbench.store.layout import results_folder


def _add_verify(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "verify",
        help="check all results: schema, keys, checksums, metrics",
        description="Read all results and check them: the schema and checksum of each record, its keys from "
        "its config and data, the checksums of its files, its metrics from its predictions. Nothing is "
        "changed. Exit code 1 if something does not agree.",
    )
    add_results(parser)
    add_config_dir(parser, "folder with your own metrics, to compute them again too")
    parser.add_argument("--no-reference", action="store_true", help="omit results/reference")


def _verify(args: argparse.Namespace) -> int:
    from dgpbench.store.verify import verify

    results = existing_results(args)
    problems: list[str] = []
    count = verify(results, not args.no_reference, problems.append)
    for text in problems:
        print(text)
    sys.stdout.flush()
    if problems:
        print(f"{count:,} records read, {len(problems):,} problems", file=sys.stderr)
        return 1
    print(f"{count:,} records agree with their configs, checksums and predictions")
    return 0


def _add_rescore(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "rescore",
        help="compute the metrics of finished runs again, without training",
        description="Compute the metrics of finished runs again from their saved parameters, e.g. after a "
        "metric was added. Without filters, all of them.",
    )
    parser.add_argument("filters", nargs="*", metavar="name=value", help="only these, e.g. dataset=energy")
    add_results(parser)
    add_config_dir(parser, "folder with metrics to add, and with kernels and likelihoods of the runs")
    add_allow(parser, "call code of this package, where records name it")
    add_allow_model(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")


def _rescore(args: argparse.Namespace) -> int:
    from dgpbench.config import compose
    from dgpbench.config.plugins import own_targets
    from dgpbench.store.filters import select
    from dgpbench.store.scan import scan

    paths = compose(config_dirs=args.config_dir)["paths"]
    args.allow = [*args.allow, *own_targets()]
    paths["results"] = args.results or paths["results"]
    note = note_of(args)
    found = scan(paths["results"], reference=False, traces=True)
    units = [unit for unit in found if unit.record.done]
    units = select(units, args.filters)
    if not units:
        raise UserError(f"no finished run in {paths['results']} matches; `dgpbench show` lists them")
    from dgpbench.experiment import rescore
    from dgpbench.store.trust import check_record

    failed = 0
    for unit in units:
        try:
            check_record(unit.record, args.allow)
            rescore(unit, _local_config(unit.record.config, paths, args.allow), note, args.allow_model)
        except UserError as error:  # the others can still be done
            failed += 1
            where = "" if str(unit.path) in str(error) else f"{unit.path} is not rescored: "
            print(f"dgpbench: error: {where}{error}", file=sys.stderr)
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - parameters that do not fit their model can do anything
            failed += 1
            first = (str(error).splitlines() or ["no message"])[0]
            kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
            print(f"dgpbench: error: {unit.path} is not rescored: {kind}{first}", file=sys.stderr)
        else:
            note(f"rescored {unit.path}")
    return 1 if failed else 0


def _local_config(config: dict, paths: dict, allow: list[str]) -> dict:
    """The record's config with the folders of this machine, and data from where the catalogue has them: an
    address that only the record names is not visited."""
    from dgpbench.data.catalogue import catalogue_section

    dataset = dict(config["dataset"])
    known = catalogue_section(dataset["name"])
    if dataset["name"] not in allow:
        if dataset.get("sources") and not known:
            raise UserError(
                f"dataset {dataset['name']} is not in the catalogue, and its record names addresses to fetch "
                f"it from; if you trust them, add --allow {dataset['name']}"
            )
        for name in ("sources", "published"):
            dataset.pop(name, None)
            if name in known:
                dataset[name] = known[name]
    return config | {"paths": paths, "dataset": dataset}


def _add_merge(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "merge",
        help="take in results from another machine",
        description="Copy the records of another results folder, with their predictions and parameters, into "
        "this one; or those of a file that `show --export` wrote, which holds records only. A done record of "
        "ours is never replaced; records and files are checked on the way. Exit code 1 if some were damaged "
        "or refused.",
    )
    parser.add_argument(
        "source", metavar="DIR|FILE", help="a results folder, or results.parquet, results.jsonl.gz"
    )
    add_results(parser, "folder to copy into")
    add_allow(parser, "take records of models of this package too")


def _merge(args: argparse.Namespace) -> int:
    from dgpbench.api.record_tables import read_export
    from dgpbench.store.scan import to_stderr
    from dgpbench.store.write import ensure_writable
    from dgpbench.sweep.merge import merge

    source = Path(args.source)
    results = results_folder(args.results)
    if not source.exists():
        raise UserError(f"no folder {source}; give a results folder, which holds one folder per dataset")
    if source.resolve() == results.resolve():
        raise UserError(f"{source} is this results folder itself; give another one")
    ensure_writable(results)
    counts = merge(source, results, to_stderr, read_export, args.allow)
    if not counts:
        raise UserError(f"no records in {source}; give a results folder, which holds one folder per dataset")
    words = {
        "taken": "taken in",
        "kept": "here already",
        "different": "of these with other numbers",
        "damaged": "damaged and left out",
        "refused": "refused",
    }
    print(", ".join(f"{counts[name]:,} {text}" for name, text in words.items() if counts[name]))
    return 1 if counts["damaged"] or counts["refused"] else 0


def _add_submit(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "submit",
        help="check records and write the file that a pull request adds",
        description="Check records as the project will: schema and checksum, keys from config and data, data "
        "from the catalogue, metrics from predictions where they are there (give the results folder: a "
        ".jsonl.gz has none), sizes, units, times and what metrics have to do with one another. Those "
        "that verify are written to results/community/NAME.jsonl.gz, to be added by a pull request; each "
        "that does not is refused with the reason, and the exit code is 1.",
    )
    parser.add_argument(
        "source", metavar="FOLDER|FILE", help="a results folder, a record.json, or a .jsonl.gz"
    )
    parser.add_argument("--name", metavar="NAME", help="of the file: you, your group or your machine")
    parser.add_argument("--check", action="store_true", help="write nothing")
    add_results(parser, "folder whose community/ is written")
    add_config_dir(parser, "folder with your own kernels, likelihoods and metrics that the records use")


def _submit(args: argparse.Namespace) -> int:
    from dgpbench.store.layout import COMMUNITY, known_folders, results_folder
    from dgpbench.store.reference import publish
    from dgpbench.store.scan import packed_units
    from dgpbench.store.submit import check

    source = Path(args.source)
    if not source.exists():
        raise UserError(f"no {source}; give a results folder, a record.json or a .jsonl.gz file")
    name = args.name or (os.environ.get("USER") or "records")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,60}", name):
        raise UserError(f"--name {name} is no name of a file; use letters, digits, _ . -")
    results = results_folder(args.results)
    if results.exists() and not results.is_dir():
        raise UserError(f"{results} is no folder; give --results a folder whose {COMMUNITY}/ can be written")
    target = results / COMMUNITY / f"{name}.jsonl.gz"
    held = {
        unit.record.key
        for folder in known_folders(results)
        for unit in packed_units(folder, traces=False)
        if unit.path.resolve() not in (source.resolve(), target.resolve())
    }
    taken, refused = check(source, held)
    for refusal in refused:
        print(f"refused: {refusal.place}: {visible(refusal.reason, 500)}", file=sys.stderr)
    if not taken and not refused:
        raise UserError(f"no records in {source}; give a results folder, which holds one folder per dataset")
    place = "" if args.check or not taken else f", written to {target}; add that file by a pull request"
    if taken and not args.check:
        publish(taken, target, anew=True)
    bare = sum(not unit.is_recomputed for unit in taken)
    told = f" ({bare:,} without predictions: metrics not recomputed)" if bare else ""
    count = "1 record is" if len(taken) == 1 else f"{len(taken):,} records are"
    print(f"{count} consistent{told}{place}; {len(refused):,} refused")
    return 1 if refused else 0


def _add_gc(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "gc",
        help="remove leftovers and old checkpoints",
        description="Remove what killed processes left behind, checkpoints of done units, old checkpoints of "
        "others and plans of sweeps long done. Records, predictions and parameters are never touched.",
    )
    parser.add_argument(
        "--days",
        type=float,
        default=14.0,
        metavar="N",
        help="checkpoints and plans older than this are old (default: 14)",
    )
    parser.add_argument("--dry-run", action="store_true", help="list, remove nothing")
    add_results(parser)


def _gc(args: argparse.Namespace) -> int:
    from dgpbench.store.scan import to_stderr
    from dgpbench.sweep.gc import garbage, remove

    results = existing_results(args)
    if not args.days >= 0:
        raise UserError(f"--days {args.days:g} is not allowed; it must be 0 or more")
    found = list(garbage(results, args.days, to_stderr))
    size = removed = 0
    for path, reason in found:
        if not args.dry_run:
            try:
                size += remove(path)
            except OSError as error:
                to_stderr(f"{path} cannot be removed: {error.strerror}")
                continue
        removed += 1
        print(f"{'would remove' if args.dry_run else 'removed'} {path}: {reason}")
    if not found:
        print("nothing to remove")
    elif not args.dry_run:
        print(f"{removed:,} removed, {size / 1e6:.1f} MB")
    return 0 if removed == len(found) else 1


VERBS: dict[str, tuple[Callable[[argparse._SubParsersAction], None], Callable[[argparse.Namespace], int]]] = {
    "verify": (_add_verify, _verify),
    "rescore": (_add_rescore, _rescore),
    "merge": (_add_merge, _merge),
    "submit": (_add_submit, _submit),
    "gc": (_add_gc, _gc),
}


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    for add, _ in VERBS.values():
        add(subparsers)


def main(args: argparse.Namespace) -> int:
    return VERBS[args.verb][1](args)
