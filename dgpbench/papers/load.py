"""Tables of a results folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dgpbench.papers import specs
from dgpbench.papers.cells import Records
from dgpbench.papers.table import Table, build
from dgpbench.store.layout import reference_folders
from dgpbench.store.scan import Unit, scan

PERF = Path("perf-results") / "perf.json"


def load_tables(
    names: Sequence[str],
    results: Path,
    reference: bool | Sequence[Path] = True,
    variants: Sequence[str] = (),
    config_dirs: Sequence[str] = (),
) -> list[Table]:
    """The named tables from the records in `results`. What cannot be read is named in a warning."""
    wanted = [specs.load(name, variants, config_dirs) for name in names]
    return tables_of(wanted, scan(results, reference=reference), results)


def all_tables(units: Sequence[Unit], results: Path) -> list[Table]:
    """Every table, each followed by its variants with experiments of their own that have been begun."""
    begun = {unit.record.experiment for unit in units} - {None}
    wanted = []
    for name in specs.names():
        spec = specs.load(name)
        others = [v for v, change in spec.variants.items() if "suffix" in change and "metric" not in change]
        variants = [specs.load(name, [variant]) for variant in others]
        wanted += [spec, *(v for v in variants if begun & {place.experiment for place in v.places.values()})]
    return tables_of(wanted, units, results)


def tables_of(wanted: Sequence[specs.Spec], units: Sequence[Unit], results: Path) -> list[Table]:
    """Return tables from records in hand; step times come from the file of `python -m benchmarks` here, or
    from the reference one."""
    records = Records(units)
    measured = (PERF, *(folder / "perf.json" for folder in reference_folders(results)))
    return [build(spec, records, measured) for spec in wanted]
