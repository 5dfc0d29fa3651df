"""`dgpbench rescore`: metrics again, from what finished runs have saved."""

from __future__ import annotations

import argparse
import sys

from dgpbench.cli.arguments import add_allow, add_allow_model, add_config_dir, add_results, note_of
from dgpbench.errors import Interrupted, UserError


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "rescore",
        help="compute the metrics of finished runs again, without training",
        description="Compute the metrics of finished runs again from their saved parameters, e.g. after a "
        "metric was added. Without filters, all of them.",
    )
    parser.add_argument("filters", nargs="*", metavar="name=value", help="only these, e.g. dataset=energy")
    add_results(parser)
    add_config_dir(parser, "folder with metrics to add, and with kernels and likelihoods of the runs")
    add_allow(parser, "call code of this package, where records name it")
    add_allow_model(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print errors only")


def main(args: argparse.Namespace) -> int:
    from dgpbench.config import compose
    from dgpbench.config.plugins import own_targets
    from dgpbench.store.filters import select
    from dgpbench.store.scan import scan

    paths = compose(config_dirs=args.config_dir)["paths"]
    args.allow = [*args.allow, *own_targets()]
    paths["results"] = args.results or paths["results"]
    note = note_of(args)
    found = scan(paths["results"], reference=False, traces=True)
    units = [unit for unit in found if unit.record.done]
    units = select(units, args.filters)
    if not units:
        raise UserError(f"no finished run in {paths['results']} matches; `dgpbench show` lists them")
    from dgpbench.experiment import rescore
    from dgpbench.store.trust import check_record

    failed = 0
    for unit in units:
        try:
            check_record(unit.record, args.allow)
            rescore(unit, _config(unit.record.config, paths, args.allow), note, args.allow_model)
        except UserError as error:  # the others can still be done
            failed += 1
            where = "" if str(unit.path) in str(error) else f"{unit.path} is not rescored: "
            print(f"dgpbench: error: {where}{error}", file=sys.stderr)
        except Interrupted:
            raise
        except Exception as error:  # noqa: BLE001 - parameters that do not fit their model can do anything
            failed += 1
            first = (str(error).splitlines() or ["no message"])[0]
            kind = "" if type(error) is ValueError else f"{type(error).__name__}: "
            print(f"dgpbench: error: {unit.path} is not rescored: {kind}{first}", file=sys.stderr)
        else:
            note(f"rescored {unit.path}")
    return 1 if failed else 0


def _config(config: dict, paths: dict, allow: list[str]) -> dict:
    """The record's config with the folders of this machine, and data from where the catalogue has them: an
    address that only the record names is not visited."""
    from dgpbench.data.catalogue import catalogue_section

    dataset = dict(config["dataset"])
    known = catalogue_section(dataset["name"])
    if dataset["name"] not in allow:
        if dataset.get("sources") and not known:
            raise UserError(
                f"dataset {dataset['name']} is not in the catalogue, and its record names addresses to fetch "
                f"it from; if you trust them, add --allow {dataset['name']}"
            )
        for name in ("sources", "published"):
            dataset.pop(name, None)
            if name in known:
                dataset[name] = known[name]
    return config | {"paths": paths, "dataset": dataset}
