"""`dgpbench run`: compose a config, run it, report."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dgpbench.cli.arguments import add_config_dir, add_no_check
from dgpbench.config.suggest import did_you_mean
from dgpbench.config.tree import FAMILIES, explanation, main_fields, options
from dgpbench.errors import ModelError, UserError

if TYPE_CHECKING:
    from dgpbench.progress import Reporter

GROUPS = {  # topic of --help -> group
    "models": "model",
    "datasets": "dataset",
    "inference": "inference",
    "protocols": "protocol",
    "budgets": "budget",
    "launchers": "launcher",
    "trackers": "tracker",
    "experiments": "experiment",
}
TOPICS = (*GROUPS, "settings")
MANY = 60  # options that are counted, not named


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "run",
        help="train and evaluate one model on one split",
        description="Train and evaluate one model on one split. What was stopped goes on.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument("overrides", nargs="*", metavar="name=value", help="choices and settings")
    parser.add_argument("--force", action="store_true", help="run again even if the record exists")
    parser.add_argument(
        "-m", "--multirun", action="store_true", help="the same as `dgpbench sweep` with these settings"
    )
    add_no_check(parser)
    add_config_dir(parser, short=True)
    parser.add_argument(
        "--cfg", "-c", nargs="?", const="job", metavar="job", help="print the composed config and exit"
    )
    parser.add_argument("-v", "--verbose", action="count", default=0, help="say more")
    parser.add_argument("-q", "--quiet", action="store_true", help="print the result only")
    parser.add_argument(
        "-h", "--help", action=Help, metavar="TOPIC", help=f"this page, or one on: {', '.join(TOPICS)}"
    )


class Help(argparse.Action):
    """--help: one screen; --help TOPIC: all there is of one kind."""

    def __init__(self, option_strings, dest, **rest):
        super().__init__(option_strings, dest=argparse.SUPPRESS, nargs="?", default=argparse.SUPPRESS, **rest)

    def __call__(self, parser, namespace, topic, option_string=None):
        if topic is None:
            parser.epilog = _overview()
            parser.print_help()
        else:
            print(_topic(topic))
        parser.exit()


def main(args: argparse.Namespace) -> int:
    from dgpbench.config import compose

    if args.cfg and "=" in args.cfg:  # --cfg model=dgp4: a setting, not the part of the config to print
        args.overrides.insert(0, args.cfg)
    elif args.cfg not in (None, "job", "all"):
        raise UserError(f"--cfg {args.cfg} is not allowed; give --cfg, --cfg job or --cfg name=value ...")
    if args.multirun:
        return _sweep(args)
    _check_once(args.overrides)
    cfg = compose(args.overrides, args.config_dir)
    if cfg["launcher"]["name"] != "local":
        raise UserError(f"run works in this process; use `dgpbench sweep launcher={cfg['launcher']['name']}`")
    if args.cfg:
        import yaml

        print(yaml.safe_dump(cfg, sort_keys=False), end="")
        return 0
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # a user's `_target_: my_module.MyModel`
    from dgpbench.experiment import run_unit
    from dgpbench.progress import Reporter

    reporter = Reporter(verbosity=-1 if args.quiet else args.verbose, expects=True)
    try:
        unit, done_before = run_unit(cfg, force=args.force, reporter=reporter, trial=_trial(args, reporter))
    finally:
        reporter.stop()
    if done_before:
        reporter.note("this run is done; --force runs it again")
    record = unit.record
    reporter.result(record, unit.path)
    if record.done:
        return 0
    reason = " ".join(str(record.reason or "no reason recorded").split())
    print(f"dgpbench: run {record.status}: {reason}; record: {unit.path}", file=sys.stderr)
    return 1


def _trial(args: argparse.Namespace, reporter: Reporter) -> Callable[[dict], None]:
    """Return the trial of a user's model that precedes its training; of the package's own models there is
    none."""

    def trial(cfg: dict) -> None:
        from dgpbench.store.trust import code_packages
        from dgpbench.sweep.trial import ROWS, check_model

        if not args.no_check and code_packages([cfg]):
            try:
                check_model(cfg, reporter.note)
            except ModelError as error:
                raise ModelError(f"{error}; found on {ROWS} rows before training (--no-check)") from None

    return trial


def _check_once(overrides: list[str]) -> None:
    """UserError where one name has two values, of which only the last would count."""
    names = [word.partition("=")[0].lstrip("+") for word in overrides]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            raise UserError(f"'{name}' is given twice; keep one, or `dgpbench sweep {name}=a,b`")


def _sweep(args: argparse.Namespace) -> int:
    from dgpbench.cli import run_verb

    if args.cfg or args.force:
        raise UserError("run -m is `dgpbench sweep`; there --cfg is --dry-run, and --force is --retry all")
    folders = [word for folder in args.config_dir for word in ("--config-dir", folder)]
    options = ["-v"] * bool(args.verbose) + ["-q"] * args.quiet + ["--no-check"] * args.no_check
    return run_verb("sweep", ["sweep", *args.overrides, *folders, *options])


def _overview() -> str:
    """The choices by name where they are few, and where to read more."""
    import textwrap

    lines = ["choices (group=option):"]
    for topic, group in GROUPS.items():
        found = list(options(group))
        names = " ".join(found) if len(found) < MANY else f"{len(found)} of them: dgpbench run --help {topic}"
        lines += textwrap.wrap(names, 78, initial_indent=f"  {group + '=':<12}", subsequent_indent=" " * 14)
    return "\n".join(
        [
            *lines,
            "",
            "examples:",
            "  dgpbench run model=dgp3 dataset=kin8nm",
            "  dgpbench run model=sgp dataset=boston split=3 budget.steps=2000 model.num_inducing=50",
            "  dgpbench run experiment=dsvi2017_dgp2 dataset=energy",
            "  dgpbench run --help models    what each option is; --help settings: all fields",
        ]
    )


def _topic(topic: str) -> str:
    """Every option of a group with what it is, or every field with its default."""
    if topic == "settings":
        rows = [(f"{name}={value}", text) for name, value, text in main_fields()]
        heading = "settings (name=value) and their defaults:"
    else:
        by_name = GROUPS | {group: group for group in GROUPS.values()}
        if topic not in by_name:
            raise UserError(f"no help on '{topic}'{did_you_mean(topic, TOPICS)}")
        group = by_name[topic]
        rows = [(name, explanation(name, path)) for name, path in options(group).items()]
        rows += [(name, f"the same as {group}={found}") for name, found in FAMILIES.get(group, {}).items()]
        rows.sort()
        heading = f"{by_name[topic]}="
    width = min(42, max(len(left) for left, _ in rows))
    return "\n".join([heading, *(f"  {left:<{width}}  {text}".rstrip() for left, text in rows)])


FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def supervised(arguments: Sequence[str], work: Callable[[], int]) -> int:
    """Return the exit code of `work`, called in a child process; 1 if the child died before `work` ended."""
    from dgpbench.sweep.process import death, oom_kills

    before, parent = oom_kills(), os.getpid()
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiver)
        _end_with(parent)
        try:
            return work()
        finally:
            os.write(sender, b".")  # os._exit, which a model may call, skips this
    os.close(sender)
    code = _wait(child)
    os.set_blocking(receiver, False)  # a process that the model left behind may hold the other end
    with os.fdopen(receiver, "rb") as pipe:
        ended = pipe.read(1)
    if code >= 0 and ended:
        return code
    status, reason = death(code, oom_kills() - before)
    reason = reason.removesuffix("; its log says more")
    print(f"dgpbench: run {status}: {reason}", file=sys.stderr)
    try:
        print(f"record: {_record(arguments, status, reason)}", file=sys.stderr)
    except Exception as error:  # noqa: BLE001 - without a record the line above is what there is
        print(f"dgpbench: no record could be written ({type(error).__name__}: {error})", file=sys.stderr)
    return 128 - code if status == "interrupted" else 1


def _wait(child: int) -> int:
    """Exit code of the child, minus the signal that ended it. Ctrl-C reaches it from the terminal; other
    signals are passed on."""
    before = {number: signal.signal(number, lambda n, frame: os.kill(child, n)) for number in FORWARDED}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_with(parent: int) -> None:
    """When the parent dies, so does the child, with a checkpoint."""
    from dgpbench.sweep.process import set_death_signal

    set_death_signal()
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def _record(arguments: Sequence[str], status: str, reason: str):
    """Record the outcome of a run and return the record's path."""
    from dgpbench.cli import Parser
    from dgpbench.config import compose
    from dgpbench.sweep.planner import make_plan
    from dgpbench.sweep.pool import record_outcome

    parser = Parser(prog="dgpbench")
    add_parser(parser.add_subparsers(dest="verb"))
    args, words = parser.parse_known_args(["run", *arguments])
    overrides = [word for word in (*args.overrides, *words) if not word.startswith(("split=", "seed="))]
    cfg = compose([*args.overrides, *words], args.config_dir)
    one = [*overrides, f"split={cfg['split']}", f"seed={cfg['seed']}"]
    plan = make_plan(one, args.config_dir, fetch=False, note=lambda text: None)
    return record_outcome(plan, 0, status, reason).path
