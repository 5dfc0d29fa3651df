"""`dgpbench tune`: choose settings on validation rows, then train the best on all training rows."""

from __future__ import annotations

import argparse
import sys

from dgpbench.cli.arguments import add_config_dir, note_of
from dgpbench.errors import UserError
from dgpbench.plain_text import aligned

SHOWN = 10  # trials of a split in the table


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "tune",
        help="choose settings on validation rows, then refit the best",
        description="Try values of some settings, score each on rows held out of the training rows "
        "(protocol.validation, 0.1 unless given), and train the best on all training rows. "
        "Test rows play no part in the choice. Trials are units of a sweep: what is done is not run again, "
        "and launcher= says where they run.",
    )
    parser.add_argument(
        "overrides",
        nargs="*",
        metavar="name=values",
        help="to choose: a,b,c, log(1e-3,1e-1), uniform(0,1), int(10,200); to keep: one value; "
        "split=0 unless given, each split tuned by itself",
    )
    parser.add_argument("--trials", type=int, default=20, metavar="N", help="per split (default: 20)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the search (default: 0)")
    parser.add_argument(
        "--sampler",
        choices=("random", "optuna"),
        default="random",
        help="random search (default), or Optuna's TPE: pip install 'dgpbench[tune]'",
    )
    parser.add_argument(
        "--metric", metavar="NAME", help="of validation rows, such as rmse or crps (default: loglik)"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the trials, run nothing")
    add_config_dir(parser, short=True)
    parser.add_argument("-v", "--verbose", action="count", default=0, help="a line for every trial")
    parser.add_argument("-q", "--quiet", action="store_true", help="print the tables only")


def main(args: argparse.Namespace) -> int:
    from dgpbench.tuning.study import refit, search

    note = note_of(args)
    if args.dry_run:
        return _dry_run(args)

    def run(plan, retry="missing"):
        from dgpbench.sweep.launch import complete

        note(f"tune {plan.name}: {len(plan.units):,} units, {plan.configs[0]['launcher']['name']}")
        return complete(plan, retry=retry, quiet=args.quiet, verbose=args.verbose > 0)

    study = search(args.overrides, args.trials, args.seed, args.sampler, args.config_dir, run, args.metric)
    for split in study.splits:
        _print_trials(study, split)
    study = refit(study, args.config_dir, run)
    code = max(_print_refit(study, split, args.config_dir) for split in study.splits)
    if not args.quiet and not code:
        words = [*_folders(args.config_dir), *study.space.fixed, f"split={','.join(map(str, study.splits))}"]
        print(f"beside untuned: dgpbench compare {' '.join(words)} --run --tuned")
    return code


def _dry_run(args: argparse.Namespace) -> int:
    from dgpbench.tuning.search_space import parse
    from dgpbench.tuning.study import Objective, split_numbers, trial_config

    space = parse(args.overrides, args.config_dir)
    Objective.of(args.metric)  # refuses what is not allowed
    if args.sampler != "random":
        raise UserError("--dry-run is for --sampler random; Optuna chooses from what it has seen")
    splits = split_numbers(space, args.config_dir)
    found = space.candidates(args.trials, args.seed)
    for values in found:
        trial_config(space, values, args.config_dir)  # refuses what is not allowed
    _table(["trial", *space.names], [[str(i), *values] for i, values in enumerate(found)])
    print(f"{len(found)} trials on {len(splits)} split{'s' if len(splits) > 1 else ''}")
    return 0


def _print_trials(study, split: int) -> None:
    ranked = study.ranked(split)
    rows = []
    for trial in ranked[:SHOWN]:
        score = "" if trial.score is None else f"{trial.score:.4f}"
        seconds = trial.unit.record.wall_seconds if trial.unit else None
        reason = "" if trial.score is not None or not trial.unit else str(trial.unit.record.reason)[:60]
        rows.append(
            [
                str(trial.number),
                *trial.values,
                score,
                "" if seconds is None else f"{seconds:.1f}",
                trial.status,
                reason,
            ]
        )
    print(f"split {split}: {len(ranked)} trials, best first, by validation {study.objective.title}")
    _table(["trial", *study.space.names, study.objective.names[0], "seconds", "status", ""], rows)
    if len(ranked) > SHOWN:
        print(f"... and {len(ranked) - SHOWN} more")


def _print_refit(study, split: int, config_dirs: list[str]) -> int:
    """The refit in numbers, and the command that repeats it; returns the exit code."""
    from dgpbench.progress import Reporter

    best = study.best(split)
    print(f"\nsplit {split}: chosen {' '.join(best)}; refit on all training rows")
    run = study.refits.get(split)
    if run is None:
        print("the refit has no record; the same command goes on", file=sys.stderr)
        return 1
    Reporter().result(run.record, run.path)
    print(
        " ".join(["again: dgpbench run", *_folders(config_dirs), *study.space.fixed, *best, f"split={split}"])
    )
    if run.status != "done":
        print(f"dgpbench: refit {run.status}: {run.record.reason}", file=sys.stderr)
    return 0 if run.status == "done" else 1


def _folders(config_dirs: list[str]) -> list[str]:
    return [f"--config-dir {folder}" for folder in config_dirs]


def _table(header: list[str], rows: list[list[str]]) -> None:
    print("\n".join(aligned([header, *rows])))
