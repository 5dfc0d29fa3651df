"""Readers of packed formats: MNIST's idx files, text inside a zip file, libsvm lines."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import numpy as np

from dgpbench.data.readers.text import line_chunks
from dgpbench.errors import UserError

Rows = Iterator[np.ndarray]  # blocks (rows, columns)
PARTS = ("train", "t10k")
IMAGES, LABELS = "{}-images-idx3-ubyte", "{}-labels-idx1-ubyte"
UBYTE = 8  # type code of unsigned bytes
_BLOCK_ROWS = 2000
MAX_UNPACKED = 1 << 30


def read_idx(paths: list[Path], options: dict) -> Rows:
    """Images and labels of the train part, then of the test part: pixels 0 to 255 row by row, label last.

    The four files, plain or gzipped, or one .tgz that holds them.
    """
    sizes: dict[str, tuple[int, ...]] = {}
    for part in PARTS:
        images = idx_array(*_content(paths, IMAGES.format(part)))
        labels = idx_array(*_content(paths, LABELS.format(part)))
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise UserError(
                f"{paths[0].parent}: {part} images have shape {images.shape} and labels {labels.shape}; they "
                "must be (N, rows, columns) and (N,): fetch the files again"
            )
        sizes[part] = images.shape[1:]
        if len(set(sizes.values())) > 1:
            shown = " and ".join(f"{name} images of {a} x {b}" for name, (a, b) in sizes.items())
            raise UserError(f"{paths[0].parent}: {shown} pixels; all images must have one size")
        for start in range(0, len(images), _BLOCK_ROWS):
            rows = images[start : start + _BLOCK_ROWS]
            pixels = rows.reshape(len(rows), -1)
            yield np.column_stack([pixels, labels[start : start + _BLOCK_ROWS]]).astype(np.float64)


def idx_array(content: bytes, where: str) -> np.ndarray:
    """The array of an idx file: two zero bytes, type, number of dimensions, big-endian sizes, values."""
    if len(content) < 4 or content[:2] != b"\0\0":
        raise UserError(f"{where}: not an idx file (it does not begin with two zero bytes); fetch it again")
    kind, ndim = content[2], content[3]
    if kind != UBYTE or not 1 <= ndim <= 3:
        raise UserError(
            f"{where}: idx type {kind} with {ndim} dimensions; only bytes (type {UBYTE}) with 1 to 3 are read"
        )
    head = 4 + 4 * ndim
    shape = tuple(int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(ndim))
    size = int(np.prod(shape, dtype=object))
    if len(content) != head + size:
        raise UserError(
            f"{where}: {len(content)} bytes where its header {shape} needs {head + size}; fetch it again"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=head).reshape(shape)


def _content(paths: list[Path], name: str) -> tuple[bytes, str]:
    """The bytes of one idx file, and what to call it in an error."""
    for path in paths:
        with unpacking(path):
            if path.name == name:
                return path.read_bytes(), str(path)
            if path.name == f"{name}.gz":
                with gzip.open(path) as file:
                    return _bounded(file, path), str(path)
            if path.suffix in (".tgz", ".tar"):
                with tarfile.open(path) as archive:
                    for member in archive:
                        if member.isfile() and member.name.rpartition("/")[2] == name:
                            return _bounded(archive.extractfile(member), path), f"{path}:{member.name}"
    raise UserError(f"{paths[0].parent}: no file {name} or {name}.gz; fetch the dataset again")


def _bounded(file, path: Path) -> bytes:
    """The unpacked content, as long as it has an end."""
    content = file.read(MAX_UNPACKED + 1)
    if len(content) > MAX_UNPACKED:
        raise UserError(f"{path}: unpacks to more than {MAX_UNPACKED >> 20} MB; this is no file of images")
    return content


def read_zip_text(path: Path, options: dict) -> Rows:
    """Numbers separated by blanks, of the `members` of a zip file one after the other."""
    for member in options["members"]:
        with _zip_member(path, member) as file:
            yield from line_chunks(file, Path(f"{path}:{member}"), options.get("delimiter"))


def read_libsvm(path: Path, options: dict) -> Rows:
    """Lines `label 1:x 2:y ...` of a member of a zip file, every input written out; label last."""
    with _zip_member(path, options["member"]) as file:
        rows = [
            _libsvm_row(line, options["inputs"], f"{path}:{options['member']}, line {number}")
            for number, line in enumerate(file, start=1)
            if line.strip()
        ]
    yield np.array(rows)


def _libsvm_row(line: str, inputs: int, where: str) -> list[float]:
    label, *pairs = line.split()
    try:
        fields = [pair.split(":") for pair in pairs]
        if [int(index) for index, _ in fields] != list(range(1, inputs + 1)):
            raise ValueError
        return [float(value) for _, value in fields] + [float(label)]
    except ValueError:
        raise UserError(f"{where}: {line.strip()[:60]!r} is not a label and inputs 1 to {inputs}") from None


@contextmanager
def _zip_member(path: Path, member: str) -> Iterator[io.TextIOWrapper]:
    with unpacking(path), bounded_zip(path) as archive:
        if member not in archive.namelist():
            raise UserError(f"{path}: no member {member} in this zip file; fetch it again")
        with io.TextIOWrapper(archive.open(member), encoding="utf-8") as file:
            yield file


def bounded_zip(path: Path) -> zipfile.ZipFile:
    """The opened zip file, unless it says that it unpacks to more than any dataset has."""
    archive = zipfile.ZipFile(path)
    if (size := sum(info.file_size for info in archive.infolist())) > MAX_UNPACKED:
        archive.close()
        raise UserError(f"{path}: unpacks to {size >> 20:,} MB, more than {MAX_UNPACKED >> 20:,}; refused")
    return archive


@contextmanager
def unpacking(path: Path) -> Iterator[None]:
    """Turn whatever a reader meets in a damaged file into one line for the user."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:  # zipfile, tarfile, zlib, NumPy, openpyxl, xlrd: each has errors of its own
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"{path}: damaged file ({reason}); fetch it again") from error


MEMBER = re.compile(r"[^/]+/(?P<character>[^/]+/[^/]+)/\d+_(?P<drawing>\d+)\.png")
_BLOCK_DRAWINGS = 1000


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
        for start in range(0, len(order), _BLOCK_DRAWINGS):
            rows = []
            for drawing in order[start : start + _BLOCK_DRAWINGS]:
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
