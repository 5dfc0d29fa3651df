"""`dgpbench figures`: the papers' figures from records and draws."""

from __future__ import annotations

import argparse
from pathlib import Path

from dgpbench.cli.arguments import add_source_arguments, reference_of
from dgpbench.errors import UserError
from dgpbench.store.layout import results_to_read


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "figures",
        help="the papers' figures from our records and draws",
        description="Draw the papers' figures from records, predictions and draws: PNG, PDF and the data as "
        "CSV. Without a name, all that can be drawn.",
    )
    parser.add_argument(
        "filters",
        nargs="*",
        metavar="FIGURE|field=value",
        help="such as 2.4 5.4; field=value chooses the records, e.g. 5.4 model=lv_gp*; or layers RUN: the "
        "layers of a GP of one input",
    )
    parser.add_argument("-o", "--output", default="figures", metavar="DIR", help="folder (default: figures)")
    parser.add_argument("--list", action="store_true", help="list the figures and what each lacks, and stop")
    add_source_arguments(parser)


def words() -> list[str]:
    """Figures, for completion: read from their file, without what draws them."""
    import yaml

    file = Path(__file__).resolve().parents[1] / "figures" / "figures.yaml"
    return [str(name) for name in yaml.safe_load(file.read_text(encoding="utf-8"))]


def main(args: argparse.Namespace) -> int:
    from dgpbench.papers import figures
    from dgpbench.report.charts import Nothing
    from dgpbench.report.output_files import output_folder, writing
    from dgpbench.store.scan import scan

    if args.list:
        print("\n".join(_listed(args)))
        return 0
    words = [word for word in args.filters if "=" in word]
    named = [word for word in args.filters if "=" not in word]
    if named[:1] == ["layers"]:
        return _layers([*named[1:], *words], args)
    if words and not named:
        raise UserError(
            "name the figure that these records are for, e.g. dgpbench figures 5.4 " + " ".join(words)
        )
    chosen = [figures.find(name) for name in named] or _quick(figures.figure_specs().values())
    results = results_to_read(args.results)
    units = scan(results, reference=reference_of(args, results), traces=True)
    for spec in chosen:
        try:
            picture = figures.make(spec, units, words)
        except Nothing as nothing:
            if named:
                raise UserError(f"figure {spec.name} cannot be drawn: {nothing}") from None
            print(f"{spec.name}: not drawn, {nothing}")
            continue
        output = output_folder(args.output)
        with writing(output):
            files = picture.save(output)
        print(f"{spec.name}: {' '.join(map(str, files))}")
        for note in picture.notes:
            print(f"  {note}")
    return 0


def _listed(args: argparse.Namespace) -> list[str]:
    """A line for each figure: name, title, and what it lacks."""
    from dgpbench.papers import figures, specs
    from dgpbench.papers.paper_table import tables_of
    from dgpbench.papers.table_overview import missing_of_figure
    from dgpbench.store.scan import scan

    known = figures.figure_specs()
    results = results_to_read(args.results)
    units = scan(results, reference=reference_of(args, results))
    wanted = {spec.table for spec in known.values() if spec.table}
    tables = {
        t.spec.name: t for t in tables_of([specs.load(name) for name in sorted(wanted)], units, results)
    }
    width, lines = max(map(len, known)), []
    for name, spec in known.items():
        title = spec.title or f"The same as {spec.same}"
        lacking = missing_of_figure(figures.find(name), units, tables)
        lines.append(f"{name:<{width}}  {title}" + (f"; {lacking}" if lacking else ""))
    return lines


def _layers(filters: list[str], args: argparse.Namespace) -> int:
    """The layers of runs, as `dgpbench plot --kind layers` draws them."""
    from dgpbench.api.fitted import layers_of
    from dgpbench.report.layers_plot import layer_pictures
    from dgpbench.report.output_files import save_pictures
    from dgpbench.report.run_files import choose

    if not filters:
        raise UserError("name the runs whose layers to draw, e.g. dgpbench figures layers dataset=step")
    pictures, undrawn = layer_pictures(choose(filters, results_to_read(args.results)), layers_of)
    if not pictures:
        raise UserError("nothing could be drawn: " + "; ".join(undrawn))
    save_pictures(pictures, undrawn, Path(args.output))
    return 0


def _quick(specs) -> list:
    """Figures that are not trained for; those that are, and those never drawn, are named in a line each."""
    own = [spec for spec in specs if not spec.same]
    asked = [spec.name for spec in own if spec.asked]
    never = [spec.name for spec in own if spec.lacks]
    print(f"drawn by name only, since models are trained for them: {', '.join(asked)}")
    print(f"not to be drawn, `dgpbench figures --list` says why: {', '.join(never)}")
    return [spec for spec in own if not (spec.asked or spec.lacks)]
