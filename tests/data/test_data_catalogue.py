"""The catalogue is complete, consistent and quick to read."""

import os
import subprocess
import sys

import pytest

from dgpbench.data.catalogue import RemoteFile, catalogue, entry_from_config, find
from dgpbench.data.readers.source_formats import READERS, TOGETHER
from dgpbench.errors import UserError

THESIS = """challenger 23 4; fertility 100 9; concreteslump 103 7; autos 159 25; servo 167 4; breastcancer
194 33; machine 209 7; yacht 308 6; autompg 392 7; boston 506 13; forest 517 12; stock 536 11;
pendulum 630 9; energy 768 8; concrete 1030 8; solar 1066 10; airfoil 1503 5; winered 1599 11;
gas 2565 128; skillcraft 3338 19; sml 4137 26; winewhite 4898 11; parkinsons 5875 20; kin8nm
8192 8; pumadyn32nm 8192 32; power 9568 4; naval 11934 14; pol 15000 26; elevators 16599 18;
bike 17379 17; kin40k 40000 8; protein 45730 9; tamielectric 45781 3; keggdirected 48827 20;
slice 53500 385; keggundirected 63608 27; 3droad 434874 3; song 515345 90; buzz 583250 77;
nytaxi 1420068 8; houseelectric 2049280 11"""
UNKNOWN_HASH = {"slice", "3droad", "song", "buzz", "nytaxi", "houseelectric", "rectangles_images", "higgs",
                "susy", "airline", "nytaxi_manhattan", "omniglot_images"}  # fmt: skip
OTHERS = {
    "snelson1d",
    "csv",
    "openml",
    "yacht_log",
    "dgp_letters",
    "bimodal",
    "heteroscedastic",
    "step",
    "arm8",
    "arm8_rows",
}
OTHERS |= {"airline", "city", "nytaxi_manhattan", "sine", "identity", "waves", "shifted_sincs"}
OTHERS |= {"digits_images", "mnist_images", "omniglot_images", "strokes_images"}
OTHERS |= {"mf_sine", "mf_branin", "mf_currin", "mf_park", "mf_borehole"}
CLASSES = {  # rows, inputs without row number, classes
    "iris": (150, 4, 3), "wine": (178, 13, 3), "ecoli": (336, 7, 8), "letter": (20000, 16, 26),
    "magic": (19020, 10, 2), "statlog-heart": (270, 13, 2), "ringnorm": (7400, 20, 2),
    "yeast": (1484, 8, 10), "spambase": (4601, 57, 2), "pima": (768, 8, 2), "banana": (5300, 2, 2),
    "mnist": (70000, 784, 10), "rectangles_images": (62000, 784, 2), "higgs": (11000000, 28, 2),
    "susy": (5000000, 18, 2), "waveform_ida": (5000, 21, 2), "thyroid_ida": (215, 5, 2),
    "digits": (1797, 64, 10), "wdbc": (569, 30, 2), "fertility_fd": (100, 9, 2),
}  # fmt: skip


def test_the_41_sets_of_the_thesis():
    printed = {r.split()[0]: tuple(map(int, r.split()[1:])) for r in THESIS.replace("\n", " ").split("; ")}
    ours = {e.name: (e.n, e.d) for e in catalogue().values() if e.thesis == "5.1"}
    assert len(printed) == 41
    assert ours == printed
    assert {e.name for e in catalogue().values() if e.task == "regression"} - set(ours) == OTHERS


def test_classification_sets():
    sets = {e.name: e for e in catalogue().values() if e.task != "regression"}
    assert {name: (sets[name].n, sets[name].d, sets[name].n_classes) for name in CLASSES} == CLASSES
    assert sum(e.row_number == 0 for e in sets.values()) == 116  # of 121; five files were not to be had
    for e in sets.values():
        assert (e.task == "binary") == (e.n_classes == 2) and len(e.classes) in (0, e.n_classes)
        assert e.row_number is None or e.row_number in e.sources[0].options["drop"]
    assert sets["mnist"].train_rows == 60000 and sets["rectangles_images"].train_rows == 12000
    assert catalogue()["airline"].train_rows == 700000


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_every_entry_is_complete(name):
    entry = catalogue()[name]
    assert entry.title
    if entry.kind == "csv":
        return
    assert entry.n > 0 and entry.d > 0 and entry.target and entry.licence and entry.citation
    if entry.kind == "synthetic":
        return
    assert entry.nearest in catalogue() and entry.nearest != name
    for source in entry.sources:
        assert source.reader in READERS or source.reader in TOGETHER
        for file in source.files:
            assert len(file.sha256 or "") == (0 if name in UNKNOWN_HASH else 64)
    wheel = any(s.kind == "wheel" for s in catalogue()[entry.nearest].sources)
    assert wheel or catalogue()[entry.nearest].generator


def test_known_traps_are_told():
    def told(name):
        return " ".join(catalogue()[name].traps)

    assert "LEAK" in told("bike")
    assert "row number" in told("concreteslump") and "GameID" in told("skillcraft")
    assert "constant" in told("naval") and "blank line" in told("yacht") and "Sheet1" in told("power")
    assert "BROKEN" in told("image-segmentation") and "standardised apart" in told("pendigits")
    assert "8 distinct targets" in told("solar") and "48 %" in told("forest")
    assert "78 %" in told("solar") and "73 %" in told("keggdirected") and "77 %" in told("keggundirected")


def test_upstream_address_follows_from_the_mirror_path():
    assert RemoteFile("github.com/o/r/c/a/b.csv").url == "https://raw.githubusercontent.com/o/r/c/a/b.csv"
    song = catalogue()["song"].sources[0]
    assert [f.name for f in song.files] == ["data.csv.gz", "data1.csv.gz"]


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(UserError, match="unknown dataset 'konkrete'; did you mean concrete"):
        find("konkrete")
    with pytest.raises(UserError, match="data list"):
        find("zzzzzzzz")


def test_config_supplies_settings_but_no_facts():
    assert entry_from_config({"name": "arm8", "n": 77}).n == 77
    assert entry_from_config({"name": "energy"}).n == 768
    with pytest.raises(UserError, match="dataset.n=100 cannot be set: energy has n=768"):
        entry_from_config({"name": "energy", "n": 100})
    with pytest.raises(UserError, match="name is missing"):
        entry_from_config({})
    with pytest.raises(UserError, match="is not a task"):
        entry_from_config({"name": "csv", "path": "a", "task": "guess"})


def test_listing_is_quick_and_imports_nothing_heavy(tmp_path):
    code = (
        "import sys, argparse\n"
        "from dgpbench.cli import data as commands\n"
        "p = argparse.ArgumentParser(); commands.add_parser(p.add_subparsers())\n"
        "assert commands.main(p.parse_args(['data', 'list'])) == 0\n"
        "heavy = {'numpy', 'pandas', 'tensorflow', 'scipy', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    before = os.times()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    after = os.times()
    assert done.returncode == 0, done.stderr
    assert after.children_user - before.children_user < 1.0  # 0.2 s of the processor
    assert "houseelectric" in done.stdout and "2,049,280" in done.stdout
