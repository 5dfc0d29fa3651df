"""One child process as its parent sees it: start, orders, answers, memory, end."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from dgpbench.errors import UserError

# The current folder comes last on the path: a user's random.py must not stand in for Python's own.
BOOT = """\
import sys
if sys.path[0] == "":
    del sys.path[0]
from dgpbench.sweep.child import main
main()
"""
SAFE_PATH = ["-P"] if sys.version_info >= (3, 11) else []
THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Child:
    """A running `dgpbench.sweep.child` with a fixed number of threads, and a GPU of its own or none at all: a
    process without one must not take memory of a GPU that others use."""

    def __init__(self, threads: int, gpu: str | None, grace: float, cwd: str):
        self.threads, self.gpu, self.units = threads, gpu, 0
        env = os.environ | {name: str(threads) for name in THREAD_LIMITS}
        env["CUDA_VISIBLE_DEVICES"] = "-1" if gpu is None else gpu
        package = str(Path(__file__).resolve().parents[2])
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [package, env.get("PYTHONPATH")]))
        command = [sys.executable, *SAFE_PATH, "-c", BOOT, str(os.getpid()), str(grace)]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=cwd,
                env=env,
                start_new_session=True,
            )
        except OSError as error:
            where = f": {error.filename}" if error.filename else ""
            raise UserError(f"worker processes cannot be started ({error.strerror}{where})") from error
        assert self._process.stdin and self._process.stdout  # pipes, as asked for
        self._orders, self._answers = self._process.stdin, self._process.stdout
        os.set_blocking(self._answers.fileno(), False)
        self._buffer = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._answers.fileno()

    def order(self, **message) -> None:
        self.units += 1
        try:
            self._orders.write(json.dumps(message).encode() + b"\n")
            self._orders.flush()
        except BrokenPipeError:
            pass  # it has just died, which its exit code will tell

    def answers(self) -> list[dict]:
        """Answers since the last call; half a line, as a killed child leaves, is never given out."""
        while block := self._read():
            self._buffer += block
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines]

    def _read(self) -> bytes:
        try:
            return os.read(self.fileno(), 1 << 16)
        except BlockingIOError:
            return b""

    def ended(self) -> int | None:
        """Its exit code (minus the signal), None while it lives."""
        return self._process.poll()

    def memory(self) -> float:
        """GB of memory in use, processes that the unit has started included."""
        return tree_memory(self.pid)

    def signal(self, number: int = signal.SIGTERM) -> None:
        """A kill takes the processes that the unit has started along; other signals are for it alone."""
        if number == signal.SIGKILL:
            self._kill_group()
        self._process.send_signal(number)

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # it leads a session, and so a group, of its own

    def close(self, seconds: float = 5.0) -> None:
        """End an idle child: it stops at the end of its orders, or is killed; what it started goes along."""
        with suppress(BrokenPipeError):
            self._orders.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._kill_group()
        self._answers.close()


_PR_SET_PDEATHSIG = 1
_PAGE = os.sysconf("SC_PAGE_SIZE")


def set_death_signal() -> None:
    """Ask the system for SIGTERM when the parent dies; only Linux has it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def share_niceness(tries: int = 5) -> None:
    """Give the session of this process its own niceness. Linux shares the processor among sessions first
    (autogroups), so that a nice process in a session of its own is as greedy as any other."""
    if not (nice := os.nice(0)):
        return
    for _ in range(tries):
        try:
            Path("/proc/self/autogroup").write_text(str(nice))
            return
        except BlockingIOError:  # users other than root may do this ten times a second, all together
            time.sleep(0.15)
        except OSError:
            return  # no Linux, or one without autogroups


def descendants(pid: int) -> list[int]:
    """Children, their children and so on, as far as the system tells."""
    found, rest = [], [pid]
    while rest:
        children = _children(rest.pop())
        found += children
        rest += children
    return found


def tree_memory(pid: int) -> float:
    """GB of memory in use by a process and all that it has started, shared pages counted once."""
    others = descendants(pid)
    return _resident(pid) if not others else sum(map(_proportional, (pid, *others)))


def end_descendants(pid: int) -> None:
    """Kill all that a process has started."""
    for child in reversed(descendants(pid)):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(child, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    if os.path.isdir("/proc/self"):
        found: list[int] = []
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError):
                    found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
        return found
    import psutil

    with suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children()]
    return []


def _resident(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e9
    except (OSError, IndexError):
        if os.path.isdir("/proc/self"):
            return 0.0
    import psutil

    with suppress(psutil.Error):
        return psutil.Process(pid).memory_info().rss / 1e9
    return 0.0


def _proportional(pid: int) -> float:
    """Memory in which a page shared by n processes counts 1/n; resident memory where that is not told."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024 / 1e9
    except (OSError, IndexError, ValueError):
        pass
    return _resident(pid)


def death(code: int, oom_kills: int) -> tuple[str, str]:
    """Return status and reason of a process that died during a run; `oom_kills` are those since it began."""
    if code >= 0:
        why = "the model, or a library that it uses, may call os._exit"
        return (
            "failed",
            f"its process ended with exit code {code} before the run did: {why}; its log says more",
        )
    name = signal.Signals(-code).name if -code in set(signal.Signals) else "unknown"
    if code == -signal.SIGKILL and oom_kills:
        return "oom", "killed by the system, which was out of memory"
    if code in (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP):
        return "interrupted", f"its process was killed from outside (signal {-code}, {name})"
    return "failed", f"its process crashed (signal {-code}, {name}); its log says more"


def oom_kills() -> int:
    """Number of processes that this system has killed for want of memory."""
    try:
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


class StopSignals:
    """While it is entered, SIGINT, SIGTERM and SIGHUP (unless nohup has it ignored) are noted in a list
    instead of ending this process."""

    def __init__(self, received: list[int]):
        self.received = received
        self.previous: dict[int, Any] = {}  # handlers

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                    continue
                self.previous[number] = signal.signal(number, lambda n, frame: self.received.append(n))

    def __exit__(self, *exc):
        for number, handler in self.previous.items():
            signal.signal(number, handler)
