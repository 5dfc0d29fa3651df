"""The processes that a process has started: their memory and their end; the end of the parent."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

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
