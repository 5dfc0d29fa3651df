"""The process that runs units, one after another: orders on stdin, answers on stdout, a JSON line each.

TensorFlow starts once and compiled steps are kept between units; the unit itself starts afresh each time
(`run_unit`). What a unit prints goes to log.txt in its folder. The process ends when its parent does.
"""

from __future__ import annotations

import faulthandler
import io
import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from dgpbench.errors import DISK_FAULTS, Interrupted, UserError, disk_fault
from dgpbench.progress import Reporter
from dgpbench.sweep.process import end_descendants, set_death_signal, share_niceness

LOG = "log.txt"
LOG_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK  # a link is not followed, a FIFO not waited for
PROGRESS_SECONDS = 1.0


class Answers:
    """The parent's end of stdout, which nothing else in this process can write to."""

    def __init__(self):
        self._pipe = os.dup(1)
        os.dup2(2, 1)

    def send(self, **message) -> None:
        """Tell the parent. A parent that has died is no fault of the unit: the signal that follows its death
        ends the unit with a checkpoint."""
        rest = memoryview(json.dumps(message).encode() + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._pipe, rest) :]
        except OSError:
            pass


class Tolerant(io.TextIOBase):
    """Text for the log; what a full disk does not take is lost, and the unit goes on."""

    def write(self, text: str) -> int:
        try:
            os.write(2, text.encode("utf-8", "replace"))
        except OSError:
            pass
        return len(text)


class Talking(Reporter):
    """Plain lines for the log, and how far the training is for the parent."""

    def __init__(self, answers: Answers):
        from rich.console import Console

        console = Console(file=sys.stderr, highlight=False, width=200, force_terminal=False)
        super().__init__(0, console, console)
        self._answers, self._sent = answers, 0.0

    def update(self, step: int, bound: float, steps_per_second: float, seconds_left: float | None) -> None:
        super().update(step, bound, steps_per_second, seconds_left)
        if time.monotonic() - self._sent >= PROGRESS_SECONDS:
            self._sent = time.monotonic()
            left = None if seconds_left is None else round(float(seconds_left), 1)
            self._answers.send(progress={"step": int(step), "steps": self._steps, "left": left})


def main() -> None:
    parent, grace = int(sys.argv[1]), float(sys.argv[2])
    answers = Answers()
    sys.stdout = sys.stderr = Tolerant()
    faulthandler.enable(file=2)
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it and decides
    _end_with(parent, grace)
    share_niceness()
    if "" not in sys.path:
        sys.path.append("")  # a user's model in the current folder, which stands in for nothing else
    home = os.getcwd()
    try:
        import dgpbench.experiment  # noqa: F401 - before any unit's clock runs

        answers.send(ready=os.getpid())
        for line in sys.stdin:
            order = json.loads(line)
            answer = trial_order(order, answers) if "trial" in order else run_order(order, answers)
            end_descendants(os.getpid())
            os.chdir(home)  # a model may have gone elsewhere
            answers.send(**answer)
    except Interrupted:
        pass  # between two units there is nothing to save
    finally:
        end_descendants(os.getpid())


def trial_order(order: dict, answers: Answers) -> dict:
    """Try a user's model; what it prints goes to a log in the trial's folder."""
    from dgpbench.sweep.trial import run_trial

    with _Log(Path(order["folder"])):
        return run_trial(order, answers.send)


def run_order(order: dict, answers: Answers) -> dict:
    """Run one unit. The answer has its status and reason, and whether its record is written."""
    from dgpbench.experiment import run_unit

    with _Log(Path(order["folder"])), _Clock(order["timeout"]) as clock:
        try:
            talk = Talking(answers)
            unit, before = run_unit(order["config"], force=order["force"], reporter=talk, stopped=_stopped)
            return _answer(unit.record.status, unit.record.reason, recorded=True, before=before)
        except Interrupted as error:
            return _halt(error, order, clock)
        except UserError as error:
            traceback.print_exc()
            if getattr(error.__cause__, "errno", None) in DISK_FAULTS:
                return _answer("interrupted", str(error), fatal=True)
            return _answer("failed", str(error))
        except OSError as error:
            traceback.print_exc()
            if error.errno in DISK_FAULTS:
                return _answer("interrupted", disk_fault(error), fatal=True)
            return _answer("failed", f"{type(error).__name__}: {error}", traceback=traceback.format_exc())
        except MemoryError as error:
            return _answer("oom", f"MemoryError: {error}")
        except Exception as error:  # noqa: BLE001 - a fact about the unit; the others must go on
            traceback.print_exc()
            if stopped := _stopped():
                return _halt(stopped, order, clock)
            first = (str(error).splitlines() or ["no message"])[0]
            return _answer("failed", f"{type(error).__name__}: {first}", traceback=traceback.format_exc())


def _answer(status: str, reason: str | None, recorded: bool = False, **more) -> dict:
    return {"status": status, "reason": reason, "recorded": recorded, **more}


def _halt(error: Interrupted, order: dict, clock: _Clock) -> dict:
    """The answer for a unit that a signal has stopped: its own clock's, or another."""
    if not clock.over:
        return _answer("interrupted", str(error))
    minutes = f"{order['timeout'] / 60:g} minutes"
    reason = f"took more than {minutes} (launcher.timeout); {str(error).partition(';')[0]}"
    return _answer("timeout", f"{reason}; with more time, --retry failed runs it on")


class _Log:
    """While a unit runs, stdout and stderr, native code included, go to the log in its folder."""

    def __init__(self, folder: Path):
        self.path, self.saved = folder / LOG, (-1, -1)

    def __enter__(self):
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            log = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | LOG_FLAGS, 0o644)
        except OSError:  # no place for a log is no reason not to run: writing the record says what is wrong
            log = os.open(os.devnull, os.O_WRONLY)
        self.saved = os.dup(1), os.dup(2)
        for number in (1, 2):
            os.dup2(log, number)
        os.close(log)
        now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        print(f"---- {now} UTC, process {os.getpid()}", file=sys.stderr)

    def __exit__(self, *exc):
        for number, saved in zip((1, 2), self.saved, strict=True):
            os.dup2(saved, number)
            os.close(saved)


class _Clock:
    """Asks this process to stop, as a signal from outside would, when the unit's time is over."""

    def __init__(self, seconds: float | None):
        self.over, self.timer = False, threading.Timer(seconds, self._ring) if seconds else None

    def _ring(self) -> None:
        self.over = True
        os.kill(os.getpid(), signal.SIGTERM)

    def __enter__(self):
        if self.timer:
            self.timer.daemon = True
            self.timer.start()
        return self

    def __exit__(self, *exc):
        if self.timer:
            self.timer.cancel()


_raised: list[Interrupted] = []  # by `_stop`: at most one


def _stop(number, frame) -> None:
    """Outside of training, where the engine has its own handler, a signal ends the unit at once; further ones
    do not disturb the end."""
    signal.signal(number, signal.SIG_IGN)
    text = f"stopped by signal {number} outside of training; the same command resumes it"
    _raised.append(Interrupted(number, text=text))
    raise _raised[0]


def _stopped() -> Interrupted | None:
    return _raised[0] if _raised else None


def _end_with(parent: int, grace: float) -> None:
    """End with the parent: SIGTERM, so that a checkpoint is written, and the end after `grace` seconds."""
    set_death_signal()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(grace)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
