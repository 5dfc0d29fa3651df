"""`dgpbench run` in a child process: if that dies (a crash, no memory, os._exit), its end is recorded."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence

FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def supervised(arguments: Sequence[str], work: Callable[[], int]) -> int:
    """Return the exit code of `work`, called in a child process; 1 if the child died before `work` ended."""
    from dgpbench.sweep.death import death, oom_kills

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
    from dgpbench.sweep.descendants import set_death_signal

    set_death_signal()
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def _record(arguments: Sequence[str], status: str, reason: str):
    """Record the outcome of a run and return the record's path."""
    from dgpbench.cli import Parser
    from dgpbench.cli.run import add_parser
    from dgpbench.config import compose
    from dgpbench.sweep.planner import make_plan
    from dgpbench.sweep.unfinished import record_outcome

    parser = Parser(prog="dgpbench")
    add_parser(parser.add_subparsers(dest="verb"))
    args, words = parser.parse_known_args(["run", *arguments])
    overrides = [word for word in (*args.overrides, *words) if not word.startswith(("split=", "seed="))]
    cfg = compose([*args.overrides, *words], args.config_dir)
    one = [*overrides, f"split={cfg['split']}", f"seed={cfg['seed']}"]
    plan = make_plan(one, args.config_dir, fetch=False, note=lambda text: None)
    return record_outcome(plan, 0, status, reason).path
