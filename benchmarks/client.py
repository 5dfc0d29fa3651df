"""The driver's side of the protocol: one worker process."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from pathlib import Path

import dgpbench
from benchmarks.cases import Case
from benchmarks.systems import worker_environment

ANSWER_SECONDS = 900.0  # longer than any compilation
SCRIPT = Path(__file__).with_name("worker.py")
PACKAGE = Path(dgpbench.__file__).resolve().parent


class WorkerError(Exception):
    """The worker failed at what it was asked; `numerical` if its numbers did, not its code."""

    def __init__(self, message: str, numerical: bool = False):
        super().__init__(message)
        self.numerical = numerical


class Worker:
    """A running worker. Use as a context manager: it is ended in any case."""

    def __init__(
        self, command: list[str], log: Path, environment: dict[str, str], timeout: float = ANSWER_SECONDS
    ):
        self.log, self.timeout = log, timeout
        self._answers: queue.Queue[str] = queue.Queue()
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
            )
        threading.Thread(target=self._read, daemon=True).start()
        self.hello: dict = {}

    @classmethod
    def of(
        cls, python: str, library: str, precision: str, threads: int, log: Path, device: str = "cpu"
    ) -> Worker:
        command = [python, str(SCRIPT), str(PACKAGE), library, precision, str(threads), device]
        return cls(command, log, worker_environment(threads, device))

    def __enter__(self) -> Worker:
        try:
            self.hello = self._answer()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def build(self, case: Case) -> dict:
        return self._ask({"do": "build", "case": case.to_dict()})

    def run(self, steps: int) -> dict:
        return self._ask({"do": "run", "steps": steps})

    def close(self) -> None:
        """End the process: politely first."""
        try:
            self._process.stdin.write('{"do": "quit"}\n')
            self._process.stdin.close()
        except OSError:  # it has gone
            pass
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _ask(self, request: dict) -> dict:
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise WorkerError(self._last_words()) from None
        return self._answer()

    def _answer(self) -> dict:
        try:
            line = self._answers.get(timeout=self.timeout)
        except queue.Empty:
            self._process.kill()
            raise WorkerError(f"no answer within {self.timeout:g} s") from None
        if not line:
            raise WorkerError(self._last_words())
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["error"], answer["numerical"])
        return answer

    def _read(self) -> None:
        try:
            for line in self._process.stdout:
                self._answers.put(line)
        except ValueError:  # closed while reading
            pass
        self._answers.put("")

    def _last_words(self) -> str:
        try:
            code = self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            code = None
        lines = self.log.read_text(errors="replace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), "nothing on stderr")
        return f"worker ended with code {code}: {said}"[:300]
