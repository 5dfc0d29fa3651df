"""`dgpbench perf`: how long a training step of a model takes on this machine."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dgpbench.cli.arguments import add_config_dir
from dgpbench.errors import UserError

if TYPE_CHECKING:
    from dgpbench.data.split import Split
    from dgpbench.engine.context import TrainResult

SECONDS = 5.0
MORE = (
    "Other libraries, races and studies: `python -m benchmarks --help` in a checkout of the repository, or "
    "`make perf`; see docs/performance.md."
)


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "perf",
        help="time a training step of a model on this machine",
        description="Train a model for a few seconds and print the time of a step, of compilation, and of "
        "the whole budget. Nothing is recorded.",
        epilog=MORE,
    )
    parser.add_argument(
        "overrides", nargs="*", metavar="name=value", help="as for run: model=dgp3 dataset=kin8nm threads=1"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help=f"time to train (default: {SECONDS:g})"
    )
    add_config_dir(parser)


def main(args: argparse.Namespace) -> int:
    from dgpbench.config import compose
    from dgpbench.config.derived import budget_of, planned_steps
    from dgpbench.data.loader import load_split

    if not args.seconds > 0:
        raise UserError(f"--seconds must be positive, not {args.seconds:g}")
    cfg = compose(args.overrides, args.config_dir)
    split = load_split(cfg)
    trained = step_times(cfg, split, args.seconds)
    if trained is None or not trained.steps or not trained.seconds:
        raise UserError(
            f"model={cfg['model']['name']} is not trained in steps; `dgpbench run` records its seconds"
        )
    each = trained.seconds / trained.steps
    print(f"{cfg['model']['name']} on {cfg['dataset']['name']}, {split.n_train:,} training rows")
    print(f"  step         {1000 * each:.3g} ms, {1 / each:,.4g} steps/s (mean of {trained.steps:,} steps)")
    print(f"  compilation  {trained.compile_seconds:.1f} s")
    if steps := planned_steps(budget_of(cfg), split.n_train):
        print(f"  the budget   {steps:,} steps, {steps * each:,.3g} s")
    print(MORE)
    return 0


def step_times(cfg: dict, split: Split, seconds: float) -> TrainResult | None:
    """Train the model of a config for `seconds`, with nothing kept; return what training measured.

    None means that the model has no training loop.
    """
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from dgpbench.engine.context import RunContext, Silent, TrainResult
    from dgpbench.models.base import check_task, create, refuse_split

    refuse_split(cfg, split)
    model = create(cfg)
    check_task(model, cfg["model"]["name"], split)
    with TemporaryDirectory(prefix="dgpbench-perf-") as folder:
        run = RunContext(
            key="",
            folder=Path(folder),
            seed=cfg["seed"],
            steps=None,
            seconds=seconds,
            reporter=Silent(),
            note=lambda text: None,
            checkpoint_seconds=float("inf"),
        )
        trained = model.fit(split, run)
    return trained if isinstance(trained, TrainResult) else None
