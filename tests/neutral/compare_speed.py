"""Step times of two checkouts in turns: one process each, one case at a time, never both at once.

    python tests/neutral/compare_speed.py OLD NEW [turns=20] [seconds=0.3] [case ...]

OLD and NEW are folders with a checkout. Prints each case's ratio (median over turns of new / old step time)
with the spread of the turns, and the geometric mean over the cases. Run it on an idle machine.
"""

import json
import math
import os
import statistics
import subprocess
import sys
import time

PRECISION = "mixed"


def serve(name: str) -> None:
    """In a child: build the step of a case, then run blocks as asked for on stdin; times go to stdout."""
    import inspect

    try:
        from benchmarks import cases
        from benchmarks.steps import ours
    except ImportError:  # a checkout of before
        from dgpbench.perf import cases
        from dgpbench.perf.steps import ours

    wanted = cases.CASES[name]
    ours.set_threads(2, *([False] if "inside" in inspect.signature(ours.set_threads).parameters else []))
    run = ours.build(wanted, PRECISION)
    run(2)
    print("ready", flush=True)
    for line in sys.stdin:
        steps = int(line)
        began = time.perf_counter()
        run(steps)
        print(json.dumps(time.perf_counter() - began), flush=True)


def all_cases(cases) -> list:
    """The twelve cases of docs/performance.md without latent variables."""
    return [case for case in cases.CASES.values() if not case.latent]


class Checkout:
    """A child process that runs one case of one checkout."""

    def __init__(self, folder: str, case: str):
        env = os.environ | {"PYTHONPATH": folder}
        command = [sys.executable, os.path.abspath(__file__), "serve", case]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, env=env, text=True, cwd=folder, **pipes)
        while self.process.stdout.readline().strip() != "ready":
            if self.process.poll() is not None:
                raise SystemExit(f"{folder}: case {case} did not start")

    def seconds(self, steps: int) -> float:
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def compare(old: str, new: str, case: str, turns: int, seconds: float) -> tuple[float, list[float]]:
    """Milliseconds of an old step, and the ratio new / old of each turn."""
    pair = Checkout(old, case), Checkout(new, case)
    try:
        steps = max(1, round(seconds / (min(c.seconds(3) for c in pair) / 3)))
        ratios, first = [], []
        for turn in range(turns):
            order = (0, 1) if turn % 2 else (1, 0)
            took = dict(zip(order, (pair[i].seconds(steps) for i in order), strict=True))
            ratios.append(took[1] / took[0])
            first.append(1000 * took[0] / steps)
        return statistics.median(first), ratios
    finally:
        for checkout in pair:
            checkout.close()


def main() -> None:
    old, new, *rest = sys.argv[1:]
    options = dict(word.split("=") for word in rest if "=" in word)
    turns, seconds = int(options.get("turns", 20)), float(options.get("seconds", 0.3))
    from benchmarks import cases

    names = [word for word in rest if "=" not in word] or [case.name for case in all_cases(cases)]
    logs = []
    for name in names:
        ms, ratios = compare(old, new, name, turns, seconds)
        low, middle, high = (statistics.quantiles(ratios, n=20)[i] for i in (0, 9, 18))
        logs.append(math.log(middle))
        print(
            f"{name:14} {ms:8.2f} ms  new / old {middle:.3f}  (5 to 95 %: {low:.2f} to {high:.2f})",
            flush=True,
        )
    print(f"geometric mean of {len(logs)} cases: {math.exp(sum(logs) / len(logs)):.3f}")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        main()
