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
        "--config-dir",
        action="append",
        default=[],
        metavar="DIR",
        help="a folder with your own model/, dataset/, ... yaml files (may be repeated)",
    )
    parser.add_argument("--cfg", action="store_true", help="print the composed config and exit")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more")
    parser.add_argument("-q", "--quiet", action="store_true", help="print the result only")


def main(args: argparse.Namespace) -> int:
    from dgpbench.config import compose

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
