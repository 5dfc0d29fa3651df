"""`dgpbench run`: compose a config, run it, report."""

from __future__ import annotations

import argparse
import os
import sys

from dgpbench.config.tree import explanation, groups, main_fields, options
from dgpbench.errors import UserError


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "run",
        help="train and evaluate one model on one split",
        description="Train and evaluate one model on one split. A run already done is not redone; one that "
        "was interrupted goes on from its checkpoint.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_config_help(),
    )
    parser.add_argument("overrides", nargs="*", metavar="name=value", help="what is not as below")
    parser.add_argument("--force", action="store_true", help="run again even if the record exists")
    parser.add_argument(
        "-m", "--multirun", action="store_true", help="the same as `dgpbench sweep` with these settings"
    )
    parser.add_argument(
        "--config-dir",
        "-cd",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder with your own model/, dataset/, ... yaml files (may be repeated)",
    )
    parser.add_argument(
        "--cfg", "-c", nargs="?", const="job", metavar="job", help="print the composed config and exit"
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more")
    parser.add_argument("-q", "--quiet", action="store_true", help="print the result only")


def main(args: argparse.Namespace) -> int:
    from dgpbench.config import compose

    if args.cfg and "=" in args.cfg:  # --cfg model=dgp4: a setting, not the part of the config to print
        args.overrides.insert(0, args.cfg)
    elif args.cfg not in (None, "job", "all"):
        raise UserError(f"--cfg {args.cfg} is not allowed; give --cfg, --cfg job or --cfg name=value ...")
    if args.multirun:
        return _sweep(args)
    cfg = compose(args.overrides, args.config_dir)
    if cfg["launcher"]["name"] != "local":
        raise UserError(f"run works in this process; use `dgpbench sweep launcher={cfg['launcher']['name']}`")
    if args.cfg:
        import yaml

        print(yaml.safe_dump(cfg, sort_keys=False), end="")
        return 0
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # a user's `_target_: my_module.MyModel`
    from dgpbench.experiment import run_unit
    from dgpbench.progress import Reporter

    reporter = Reporter(verbosity=-1 if args.quiet else args.verbose)
    try:
        unit, done_before = run_unit(cfg, force=args.force, reporter=reporter)
    finally:
        reporter.stop()
    if done_before:
        reporter.note("this run is done; --force runs it again")
    record = unit.record
    reporter.result(record, unit.path)
    if record["status"] == "done":
        return 0
    reason = " ".join(str(record.get("reason") or "no reason recorded").split())
    print(f"dgpbench: run {record['status']}: {reason}; record: {unit.path}", file=sys.stderr)
    return 1


def _sweep(args: argparse.Namespace) -> int:
    from dgpbench.cli import run_verb

    if args.cfg or args.force:
        raise UserError("run -m is `dgpbench sweep`; there --cfg is --dry-run, and --force is --retry all")
    folders = [word for folder in args.config_dir for word in ("--config-dir", folder)]
    options = ["-v"] * bool(args.verbose) + ["-q"] * args.quiet
    return run_verb("sweep", ["sweep", *args.overrides, *folders, *options])


def _config_help() -> str:
    lines = ["choices (group=option):"]
    for group in groups():
        found = options(group)
        width = max(map(len, found))
        lines += ["", f"  {group}="]
        lines += [f"    {name:<{width}}  {explanation(name, path)}" for name, path in found.items()]
    lines += ["", "fields (name=value) and their defaults:", ""]
    rows = [(f"{name}={value}", text) for name, value, text in main_fields()]
    width = min(42, max(len(left) for left, _ in rows))
    lines += [f"  {left:<{width}}  {text}".rstrip() for left, text in rows]
    return "\n".join(lines)
