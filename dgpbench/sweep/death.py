"""What the end of a process says about its run."""

from __future__ import annotations

import signal
from pathlib import Path


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
