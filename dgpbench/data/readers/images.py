"""Reader of drawings in zip files: Omniglot's images_background.zip and images_evaluation.zip.

A member is FOLDER/ALPHABET/CHARACTER/WRITER_DRAWING.png, black ink on white, all of one size.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import numpy as np

from dgpbench.data.readers.archives import bounded_zip, unpacking
from dgpbench.errors import UserError

MEMBER = re.compile(r"[^/]+/(?P<character>[^/]+/[^/]+)/\d+_(?P<drawing>\d+)\.png")
_BLOCK_ROWS = 1000


class Drawing(NamedTuple):
    path: Path
    member: str
    character: str  # alphabet and number
    number: int  # of the drawing, from 1


def read_omniglot(paths: list[Path], options: dict) -> Iterator[np.ndarray]:
    """Ink from 0 to 1 row by row, the character's number last: all drawings of the first file, then of the
    second the first `shots` of each character, then the others. Images become `size` by `size` pixels."""
    if len(paths) != 2:
        raise UserError(f"{paths[0].parent}: two zip files are needed, of known and of new characters")
    known, new = (_drawings(path) for path in paths)
    shots = options["shots"]
    first, rest = ([d for d in new if (d.number <= shots) is few] for few in (True, False))
    names = [*dict.fromkeys(d.character for d in known), *dict.fromkeys(d.character for d in new)]
    label = {name: i for i, name in enumerate(names)}
    if len(label) < len(names):
        raise UserError(
            f"{paths[1]}: a character of it also stands in {paths[0].name}; these are not the two parts"
        )
    order, size = [*known, *first, *rest], None
    with ExitStack() as stack:
        archives = {path: stack.enter_context(bounded_zip(path)) for path in paths}
        for start in range(0, len(order), _BLOCK_ROWS):
            rows = []
            for drawing in order[start : start + _BLOCK_ROWS]:
                ink, found = _ink(archives[drawing.path], drawing, options["size"])
                size = size or (found, drawing.member)
                if found != size[0]:
                    raise UserError(
                        f"{drawing.path}: {drawing.member} has {found[0]} x {found[1]} pixels, {size[1]} has "
                        f"{size[0][0]} x {size[0][1]}; all images must have one size"
                    )
                rows.append(np.append(ink, label[drawing.character]))
            yield np.array(rows)


def _drawings(path: Path) -> list[Drawing]:
    """Drawings of a file by character, then number."""
    with unpacking(path), bounded_zip(path) as archive:
        found = [(name, MEMBER.fullmatch(name)) for name in archive.namelist()]
    drawings = [Drawing(path, name, m["character"], int(m["drawing"])) for name, m in found if m]
    if not drawings:
        raise UserError(
            f"{path}: no member FOLDER/ALPHABET/CHARACTER/0001_01.png; this is no part of Omniglot"
        )
    return sorted(drawings, key=lambda d: (d.character, d.number))


def _ink(archive: ZipFile, drawing: Drawing, side: int) -> tuple[np.ndarray, tuple[int, int]]:
    """Ink of a drawing (side^2,), area averaged, and the size that it had."""
    from PIL import Image

    with unpacking(drawing.path):
        with Image.open(io.BytesIO(archive.read(drawing.member)), formats=("PNG",)) as image:
            grey, size = image.convert("L"), image.size
    if size != (side, side):
        grey = grey.resize((side, side), Image.Resampling.BOX)
    return 1.0 - np.asarray(grey, np.float64).ravel() / 255.0, size
