"""`python -m benchmarks`: measure, write perf.json, a table and a plot, and compare ratios with targets."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dgpbench.cli import Parser, guarded
from dgpbench.errors import UserError
from dgpbench.report.output_files import put

COMMAND = "python -m benchmarks"
DEFAULT_OUTPUT = "perf-results"
ROUNDS, TURN = 7, 0.7
STUDIES = {
    "time-to-accuracy": "only seconds of training until DGP2 has the published test log-likelihood; "
    "with --systems gpytorch,gpflux the race with these peers",
    "choice": "only validation log-likelihood against seconds of training, for the choice of defaults",
    "scaling": "only step time against batch, M, depth, width, K, and rate and memory against rows",
    "evaluation": "only test rows per second of prediction and of all metrics",
    "posteriors": "only steps of the posteriors that couple layers beside mean field",
    "sampling": "only effective samples per second of SGPMC beside GPflow's, on coal and pines",
}


def parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        prog=COMMAND,
        description="Time training steps of dgpbench and its peers in turns, in one run, each in a process "
        "of its own with the same malloc settings and threads. Writes perf.json, perf.md and perf.png.",
        epilog="GPflux and GPyTorch need environments of their own: `make perf` makes them. "
        "DGPBENCH_PERF_ENVS names the folder that holds them (default .perf-envs).",
    )
    parser.add_argument(
        "--cases",
        nargs="+",
        default=[],
        metavar="CASE",
        help="a, b, a-sgp, b-dgp2, ... (default: all); of a study its datasets, models or axes",
    )
    parser.add_argument(
        "--systems",
        nargs="+",
        default=[],
        metavar="SYSTEM",
        help="dgpbench, dgpbench-mixed, gpflux-float64, ... (default: all); of a study its settings",
    )
    parser.add_argument(
        "--rounds", type=int, metavar="N", help=f"turns of each system (default: {ROUNDS}), or splits"
    )
    parser.add_argument(
        "--seconds", type=float, metavar="S", help=f"length of a turn (default: {TURN}), or of a training run"
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="threads of every system (default: all cores)"
    )
    parser.add_argument(
        "--device", choices=("cpu", "gpu"), default="cpu", help="where steps are timed (default: cpu)"
    )
    parser.add_argument(
        "--peers-python",
        nargs="+",
        default=[],
        metavar="ENV",
        help="folder that holds gpflux/ and gpytorch/, or gpflux=PATH gpytorch=PATH",
    )
    parser.add_argument(
        "-o",
        "--output",
        default=DEFAULT_OUTPUT,
        metavar="DIR",
        help=f"folder of the results (default: {DEFAULT_OUTPUT})",
    )
    parser.add_argument(
        "--replot", action="store_true", help="only table and plot, from perf.json in that folder"
    )
    only = parser.add_mutually_exclusive_group()
    for study, about in STUDIES.items():
        only.add_argument(f"--{study}", dest="study", action="store_const", const=study, help=about)
    only.add_argument(
        "--check-run",
        action="store_true",
        help="only compare the steps per second of `dgpbench run` with the bare step",
    )
    return parser


def main(argv: Sequence[str]) -> int:
    """Measure as the arguments say; return the exit code: 0 done, 1 a target was missed, 2 bad input."""
    return guarded(lambda: _run(parser().parse_args(argv)))


def _run(args: argparse.Namespace) -> int:
    from rich.console import Console

    given = (args.rounds, args.seconds, args.threads)
    if any(value is not None and not value > 0 for value in given):
        raise UserError("--rounds, --seconds and --threads must be positive")
    if args.device == "gpu" and (args.study or args.check_run or args.replot):
        raise UserError("--device gpu times training steps; studies run on the processor: leave one out")
    folder = Path(args.output)
    console = Console(stderr=True)
    note = lambda text: console.print(text, markup=False, highlight=False)  # noqa: E731
    if args.check_run:
        return _check_run(folder, args.threads)
    if args.study:
        from benchmarks import studies

        return studies.run(args.study, args, folder, note)
    path = folder / "perf.json"
    if args.replot:
        results = _read(path)
    else:
        results = _measure(args, path, note)
    _write(results, folder, note)
    return 0


def _measure(args: argparse.Namespace, path: Path, note) -> dict:
    from benchmarks.cases import CASES, select
    from benchmarks.measure import Settings, measure
    from benchmarks.systems import SYSTEMS, interpreters

    cases = [CASES[name] for name in select(args.cases, list(CASES), "case")]
    systems = [SYSTEMS[name] for name in select(args.systems, list(SYSTEMS), "system")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    settings = Settings(args.rounds or ROUNDS, args.seconds or TURN, args.threads or cores, args.device)
    if args.device == "gpu":
        _need_gpu()
    pythons = interpreters(args.peers_python)
    path.parent.mkdir(parents=True, exist_ok=True)
    return measure(cases, systems, pythons, settings, note, keep=lambda results: _keep(path, results))


def _need_gpu() -> None:
    from dgpbench.engine.platform import GPUS

    if not GPUS:
        raise UserError("--device gpu, but TensorFlow sees no GPU; install dgpbench[gpu], or leave it out")


def _keep(path: Path, results: dict) -> None:
    put(path, (json.dumps(results, indent=1, allow_nan=False) + "\n").encode())


def _read(path: Path) -> dict:
    from benchmarks.measure import SCHEMA

    again = f"measure again: {COMMAND} -o {path.parent}"
    try:
        results = json.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"no {path}; measure first: {COMMAND} -o {path.parent}") from None
    except ValueError:
        raise UserError(f"{path} is no JSON file; {again}") from None
    if not isinstance(results, dict) or results.get("schema") != SCHEMA:
        raise UserError(f"{path} is not of schema {SCHEMA}; {again}")
    return results


def _write(results: dict, folder: Path, note) -> None:
    from rich.console import Console

    from benchmarks import plot, tables

    put(folder / "perf.md", tables.markdown(results).encode())
    tables.show(results, Console())
    written = ["perf.json", "perf.md"]
    try:
        plot.draw(results, folder / "perf.png")
        written.append("perf.png")
    except ImportError:
        note("no plot: matplotlib is not installed (pip install matplotlib, then {COMMAND} --replot)")
    note(f"written to {folder}: {', '.join(written)}")


def _check_run(folder: Path, threads: int | None) -> int:
    from benchmarks.overhead import check_run_overhead

    found = check_run_overhead([f"threads={threads}"] if threads else [])
    folder.mkdir(parents=True, exist_ok=True)
    _keep(folder / "overhead.json", found.to_dict())
    print(found.line())
    return 0 if found.met else 1


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow is loaded
    sys.exit(main(sys.argv[1:]))
