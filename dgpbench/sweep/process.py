"""One child process as its parent sees it: start, orders, answers, memory, end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from dgpbench.errors import UserError
from dgpbench.sweep.descendants import tree_memory

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
