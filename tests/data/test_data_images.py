"""Images as outputs: pixels and one-hot labels, which images train, files in Omniglot's format, bad input."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from dgpbench.config import compose
from dgpbench.config.keys import run_key
from dgpbench.data import load_split
from dgpbench.data.catalogue import find
from dgpbench.data.readers.source_formats import read_rows
from dgpbench.errors import UserError


def _split(tmp_path, *words):
    return load_split(compose([f"paths.datasets={tmp_path / 'sets'}", *words]))


def test_pixels_are_outputs_and_labels_are_inputs(tmp_path):
    turned = _split(tmp_path, "dataset=strokes_images")
    labelled = _split(tmp_path, "dataset=strokes")
    assert turned.image == (8, 8) and turned.n_train == 800 and turned.n_test == 200
    np.testing.assert_array_equal(turned.Y_test, labelled.X_test)
    np.testing.assert_array_equal(turned.X_test, np.eye(4)[labelled.Y_test[:, 0].astype(int)])
    assert 0 <= turned.Y_train.min() and turned.Y_train.max() <= 1 and turned.y_std.tolist() == [1.0] * 64
    upright = turned.Y_test[turned.X_test[:, 0] == 1].mean(0).reshape(8, 8)
    assert upright[:, 3:5].mean() > 3 * upright[:, [0, 7]].mean()  # a stroke in the middle columns


def test_so_many_images_of_each_class(tmp_path):
    few = _split(tmp_path, "dataset=strokes_images", "dataset.per_class=3")
    assert few.n_train == 12 and few.n_test == 200
    np.testing.assert_array_equal(few.X_train.sum(0), [3, 3, 3, 3])
    assert (few.rows_train < 800).all() and len(set(few.rows_train)) == 12
    more = _split(tmp_path, "dataset=strokes_images", "dataset.per_class=5")
    assert set(few.rows_train) <= set(more.rows_train)  # a larger set holds the smaller one


def test_one_class_alone(tmp_path):
    ones = _split(tmp_path, "dataset=strokes_images", "dataset.label=1", "dataset.per_class=20")
    every = _split(tmp_path, "dataset=strokes_images")
    assert ones.n_train == 20 and ones.X_train.tolist() == [[1.0]] * 20
    assert ones.n_test == every.X_test[:, 1].sum()


def test_sets_without_test_images_are_shuffled_within_classes(tmp_path):
    split = _split(tmp_path, "dataset=strokes_images", "protocol.fixed_test=false", "split=2")
    assert (split.n_train, split.n_test) == (900, 100)
    shares = split.X_train.mean(0)
    np.testing.assert_allclose(shares, split.X_test.mean(0), atol=0.01)


def test_pixels_may_be_standardised(tmp_path):
    split = _split(tmp_path, "dataset=strokes_images", "protocol.pixels=scaling")
    np.testing.assert_allclose(split.Y_train.std(0), 1.0)


def test_label_and_count_enter_the_key():
    keys = {
        run_key(compose(["dataset=strokes_images", *more]), "0" * 64)
        for more in ([], ["dataset.per_class=2"], ["dataset.per_class=4"], ["dataset.label=1"])
    }
    assert len(keys) == 4


@pytest.mark.parametrize(
    "words, says",
    [
        (
            ["dataset=strokes_images", "dataset.per_class=500"],
            "class . of strokes_images has only .* to train; at most",
        ),
        (["dataset=strokes_images", "dataset.per_class=0"], "a whole number of at least 1"),
        (["dataset=strokes_images", "dataset.label=7"], "is no label of strokes_images; it has 0, 1, 2, 3"),
        (["dataset=strokes_images", "dataset.image=[4,4]"], r"dataset.image=\[4, 4\] cannot be set"),
        (["dataset=strokes_images", "protocol=extrapolate"], "has no rule for images"),
    ],
)
def test_bad_settings_are_refused_in_one_line(words, says, tmp_path):
    with pytest.raises(UserError, match=says) as error:
        _split(tmp_path, *words)
    assert "\n" not in str(error.value)


def test_settings_of_images_need_images(config):
    with pytest.raises(UserError, match="dataset.per_class=2 is for sets of images"):
        load_split(config({"name": "strokes", "per_class": 2}))


def test_images_that_cannot_be_had_name_images_that_can(tmp_path):
    with pytest.raises(
        UserError, match=r"images_background.zip .* dataset=digits_images .* dataset=strokes_images"
    ):
        _split(tmp_path, "dataset=omniglot_images", f"paths.mirror={tmp_path}")


# ---- Omniglot -------------------------------------------------------------------------------------------


def _png(ink: np.ndarray) -> bytes:
    """A one-bit image as the public files have it: 0 where there is ink."""
    out = io.BytesIO()
    Image.fromarray(np.where(ink, 0, 255).astype(np.uint8)).convert("1").save(out, "PNG")
    return out.getvalue()


def _file(path, folder, characters, side=56, drawings=6, odd=None):
    with zipfile.ZipFile(path, "w") as archive:
        for k, character in enumerate(characters):
            for number in range(1, drawings + 1):
                ink = np.zeros((side, side), bool)
                ink[2 * k : 2 * k + 2] = True  # the k-th row of the reduced image
                if odd == (character, number):
                    ink = ink[:, 1:]
                archive.writestr(f"{folder}/{character}/{k:04d}_{number:02d}.png", _png(ink))
        archive.writestr(f"{folder}/README", "not an image")


def _files(tmp_path, **second):
    paths = [tmp_path / "images_background.zip", tmp_path / "images_evaluation.zip"]
    _file(paths[0], "images_background", ["Latin/character01", "Latin/character02", "Greek/character01"])
    _file(paths[1], "images_evaluation", ["Oriya/character01", "Oriya/character02"], **second)
    return paths


def test_omniglot_files(tmp_path):
    options = {"size": 28, "shots": 4}
    blocks = list(read_rows("omniglot", _files(tmp_path), options))
    pixels, labels = (np.concatenate(part) for part in zip(*blocks, strict=True))
    assert pixels.shape == (30, 784)
    assert labels[:, 0].tolist() == [0] * 6 + [1] * 6 + [2] * 6 + [3] * 4 + [4] * 4 + [3] * 2 + [4] * 2
    image = pixels[6].reshape(28, 28)  # Latin/character01, the first of its file: ink in the first row
    assert image[0].tolist() == [1.0] * 28 and not image[1:].any()


def test_omniglot_end_to_end(tmp_path, paths):
    folder = tmp_path / "datasets" / "omniglot_images"
    folder.mkdir(parents=True)
    _files(folder)
    fact = find("omniglot_images")
    assert (fact.n, fact.d, fact.train_rows) == (32460, 1623, 964 * 20 + 659 * 4)
    cfg = compose(["dataset=omniglot_images", f"paths.datasets={tmp_path / 'datasets'}"])
    with pytest.raises(UserError, match="30 rows where dataset omniglot_images has 32460"):
        load_split(cfg)
    cfg["dataset"] |= {"name": "small", "n": 30, "train_rows": 26}
    (tmp_path / "datasets" / "small").mkdir()
    _files(tmp_path / "datasets" / "small")
    split = load_split(cfg)
    assert (split.n_train, split.n_test, split.dim, split.outputs) == (26, 4, 5, 784)
    np.testing.assert_array_equal(split.X_test, np.eye(5)[[3, 3, 4, 4]])


@pytest.mark.parametrize(
    "second, says",
    [
        (
            {"odd": ("Oriya/character02", 5)},
            r"character02/0001_05.png has 55 x 56 pixels, .* 56 x 56; all images",
        ),
        ({"side": 60}, "has 60 x 60 pixels"),
        ({"drawings": 0}, "this is no part of Omniglot"),
    ],
)
def test_images_of_unequal_size_are_refused(tmp_path, second, says):
    with pytest.raises(UserError, match=says) as error:
        list(read_rows("omniglot", _files(tmp_path, **second), {"size": 28, "shots": 4}))
    assert "\n" not in str(error.value)


def test_parts_that_are_not_two(tmp_path):
    paths = _files(tmp_path)
    with pytest.raises(UserError, match="two zip files"):
        list(read_rows("omniglot", paths[:1], {"size": 28, "shots": 4}))
    with pytest.raises(UserError, match="also stands in"):
        list(read_rows("omniglot", [paths[0], paths[0]], {"size": 28, "shots": 4}))


def test_idx_parts_of_unequal_size(tmp_path):
    from test_class_readers import four_files, idx, written

    contents = four_files(**{"t10k-images-idx3-ubyte": idx(np.zeros((4, 3, 3)))})[0]
    with pytest.raises(UserError, match="train images of 3 x 2 and t10k images of 3 x 3 pixels; all images"):
        list(read_rows("idx", written(tmp_path, contents, "plain"), {}))


def test_mnist_from_the_mirror(mirror, tmp_path):
    split = _split(
        tmp_path, "dataset=mnist_images", f"paths.mirror={mirror}", "dataset.label=1", "dataset.per_class=100"
    )
    assert (split.n_train, split.n_test, split.outputs) == (100, 1135, 784)
    assert split.Y_train.max() == 1.0 and 0.05 < split.Y_train.mean() < 0.1


def test_densities_of_ones_by_noise_a_mean_image_and_pca(mirror, tmp_path):
    """Nat per pixel of the test ones, for models fitted to 100 ones in closed form."""
    words = ["dataset=mnist_images", "dataset.label=1", "dataset.per_class=100"]
    split = _split(tmp_path, *words, f"paths.mirror={mirror}")
    train, test, found = split.Y_train, split.Y_test, {}
    for name, mean in (("noise", 0.0), ("mean image", train.mean(0))):
        s2 = ((train - mean) ** 2).mean()
        found[name] = -0.5 * (np.log(2 * np.pi * s2) + ((test - mean) ** 2).mean() / s2)
    centred, apart = train - train.mean(0), test - train.mean(0)
    _, S, Vt = np.linalg.svd(centred, full_matrices=False)
    size, D = S**2 / len(train), 784
    for q in (1, 5, 10):  # the likeliest covariance W W' + s2 I of rank q and noise (Tipping and Bishop)
        s2 = size[q:].sum() / (D - q)
        W = Vt[:q].T * np.sqrt(size[:q] - s2)
        C, b = np.eye(q) + W.T @ W / s2, apart @ W / s2
        quad = (apart**2).sum(1) / s2 - (b * np.linalg.solve(C, b.T).T).sum(1)
        log_det = D * np.log(s2) + np.linalg.slogdet(C)[1]
        found[f"PCA {q}"] = -0.5 * (np.log(2 * np.pi) + (log_det + quad.mean()) / D)
    print(found)
    expected = {"noise": -0.06, "mean image": 0.35, "PCA 1": 0.56, "PCA 5": 0.83, "PCA 10": 0.95}
    assert found == pytest.approx(expected, abs=0.005)
