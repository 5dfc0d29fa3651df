"""One child process as its parent sees it: start, orders, answers, memory, end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Child:
    """A running `dgpbench.sweep.child` with a fixed number of threads and perhaps a GPU of its own."""

    def __init__(self, threads: int, gpu: str | None, grace: float, cwd: str):
        self.threads, self.gpu, self.units = threads, gpu, 0
        env = os.environ | {name: str(threads) for name in THREAD_LIMITS}
        if gpu is not None:
            env["CUDA_VISIBLE_DEVICES"] = gpu
        package = str(Path(__file__).resolve().parents[2])
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [package, env.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "dgpbench.sweep.child", str(os.getpid()), str(grace)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=cwd, env=env, start_new_session=True
        )
        os.set_blocking(self._process.stdout.fileno(), False)
        self._buffer = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._process.stdout.fileno()

    def order(self, **message) -> None:
        self.units += 1
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
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
        """GB of memory in use."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * _PAGE / 1e9
        except (OSError, IndexError):
            if os.path.isdir("/proc/self"):
                return 0.0
        import psutil

        try:
            return psutil.Process(self.pid).memory_info().rss / 1e9
        except psutil.Error:
            return 0.0

    def signal(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def close(self, seconds: float = 5.0) -> None:
        """End an idle child: it stops at the end of its orders, or is killed."""
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
