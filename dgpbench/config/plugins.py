"""Config folders that installed packages bring, found by entry points and without importing the packages.

    [project.entry-points."dgpbench.models"]
    theirs = "their_package"

offers their_package/conf/model/theirs.yaml as `model=theirs`, as if the folder were given by --config-dir.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

GROUPS = {
    "dgpbench.models": "model",
    "dgpbench.datasets": "dataset",
    "dgpbench.inference": "inference",
    "dgpbench.trackers": "tracker",
}


@lru_cache(maxsize=1)
def plugin_folders() -> tuple[Path, ...]:
    """The conf/ folders of installed packages; one without the file it promises is told of and left out."""
    from importlib.metadata import entry_points

    found: dict[Path, None] = {}
    for entry_group, group in GROUPS.items():
        for entry in sorted(entry_points(group=entry_group), key=lambda entry: (entry.name, entry.value)):
            folder = _folder(entry.value)
            if folder is not None and (folder / group / f"{entry.name}.yaml").is_file():
                found[folder] = None
            else:
                text = f"entry point {entry_group}: {entry.name} = {entry.value}"
                where = f"{entry.value.replace('.', '/')}/conf/{group}/{entry.name}.yaml"
                print(f"warning: {text} is left out: no file {where}", file=sys.stderr)
    return tuple(found)


def _folder(package: str) -> Path | None:
    """conf/ of a package, by its place on disk."""
    from importlib.util import find_spec

    top, *rest = package.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    places = (spec.submodule_search_locations or ()) if spec else ()
    return next((Path(place, *rest, "conf").resolve() for place in places), None)
