"""Capture instances against the definition: scale, subtract, take the root, one pair at a time."""

import json
import math
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from damnatio.captures import find_captures, instances_of, medoids
from damnatio.faces.base import Faces, FaceSource, Images, UnreadableError
from damnatio.faces.collecting import collect
from damnatio.faces.distances import SCALES, pixel_distances
from damnatio.recipe.schema import CaptureSettings, FaceSettings, PixelScale
from damnatio.support.tables import Table

SIZE = 16


def noise(count: int, seed: int = 0, size: int = SIZE) -> Images:
    return np.random.default_rng(seed).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def naive_distance(a: NDArray[np.uint8], b: NDArray[np.uint8], scale: PixelScale = "normalised") -> float:
    rows = []
    for image in (a, b):
        values = [float(value) for value in image.ravel()]
        mean = math.fsum(values) / len(values)
        spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
        if scale == "input":
            rows.append([(value - 127.5) / 127.5 for value in values])
        else:
            rows.append([(value - mean) / spread if spread else 0.0 for value in values])
    total = math.fsum((x - y) ** 2 for x, y in zip(*rows, strict=True))
    return math.sqrt(total) * math.sqrt(37_632 / len(rows[0]))


def burst(base: NDArray[np.uint8], shots: int, strength: float, seed: int) -> Images:
    """Pictures of one moment: the same image with a little noise."""
    rng = np.random.default_rng(seed)
    shaken = base.astype(float) + rng.normal(0, strength, (shots, *base.shape))
    return np.clip(shaken, 0, 255).round().astype(np.uint8)


@pytest.mark.parametrize("scale", SCALES)
def test_distance_is_the_definition(scale: PixelScale) -> None:
    images = np.concatenate([noise(3), burst(noise(1, 5)[0], 3, 4.0, 1)])
    distances = pixel_distances(images, scale)
    for i in range(len(images)):
        for j in range(len(images)):
            assert distances[i, j] == pytest.approx(naive_distance(images[i], images[j], scale), rel=1e-4, abs=1e-3)


def test_distance_on_the_input_scale_by_hand() -> None:
    """Black and white are 2 apart in each value; one step of a value is 2/255 apart."""
    black, white, dark = (np.full((1, 112, 112, 3), value, dtype=np.uint8) for value in (0, 255, 1))
    distances = pixel_distances(np.concatenate([black, white, dark]), "input")
    assert distances[0, 1] == pytest.approx(2 * math.sqrt(37_632), rel=1e-6)
    assert distances[0, 2] == pytest.approx(2 / 255 * math.sqrt(37_632), rel=1e-6)
    small = pixel_distances(np.concatenate([black, white])[:, :SIZE, :SIZE], "input")
    assert small[0, 1] == distances[0, 1]


def test_distances_are_exact_on_the_input_scale_where_float32_sums_would_not_be() -> None:
    """Images of 512 pixels: the sum of their squares is beyond float32, and they differ in one value by one step."""
    image = np.full((512, 512, 3), 255, dtype=np.uint8)
    other = image.copy()
    other[7, 9, 1] = 254
    found = pixel_distances(np.stack([image, other]), "input")[0, 1]
    assert found == pytest.approx(math.sqrt(37_632 / image.size) / 127.5, rel=1e-6)


def test_distance_is_stated_on_the_scale_of_112_pixels() -> None:
    """Two images of independent values are sqrt(2 n) apart before scaling, whatever their size after it."""
    for size in (16, 40):
        assert pixel_distances(noise(2, size=size), "normalised")[0, 1] == pytest.approx(
            math.sqrt(2 * 37_632), rel=0.05
        )
    assert pixel_distances(noise(2, size=112), "normalised")[0, 1] == pytest.approx(
        naive_distance(*noise(2, size=112)), rel=1e-5
    )


@pytest.mark.parametrize("scale", SCALES)
def test_distance_is_a_symmetric_matrix_with_a_zero_diagonal(scale: PixelScale) -> None:
    distances = pixel_distances(noise(5), scale)
    assert np.array_equal(distances, distances.T)
    assert not distances.diagonal().any()


@pytest.mark.parametrize(("factor", "offset"), [(1, 60), (2, 0), (2, 75), (3, 1)])
def test_brightness_and_contrast_do_not_matter_where_images_are_normalised(factor: int, offset: int) -> None:
    image = np.random.default_rng(0).integers(0, 60, (SIZE, SIZE, 3), dtype=np.uint8)
    changed = (image.astype(int) * factor + offset).astype(np.uint8)
    other = noise(1, 3)[0]
    distances = pixel_distances(np.stack([image, changed, other]), "normalised")
    assert distances[0, 1] == pytest.approx(0, abs=0.01)
    assert distances[0, 2] == pytest.approx(distances[1, 2], rel=1e-5)


@pytest.mark.parametrize("size", [16, 112, 171, 295, 512])
@pytest.mark.parametrize("value", [0, 77, 255])
def test_image_of_one_colour_is_a_vector_of_zeros(size: int, value: int) -> None:
    """So its distance to any other image is the length of the other one."""
    images = np.stack([np.full((size, size, 3), value, dtype=np.uint8), noise(1, size=size)[0]])
    distances = pixel_distances(images, "normalised")
    assert distances[0, 1] == pytest.approx(math.sqrt(37_632), rel=1e-7)


def test_images_of_one_colour_are_one_instance_and_far_from_any_other() -> None:
    images = np.concatenate([np.full((1, SIZE, SIZE, 3), value, dtype=np.uint8) for value in (0, 255)] + [noise(1)])
    distances = pixel_distances(images, "normalised")
    assert distances[0, 1] == 0
    assert distances[0, 2] == pytest.approx(math.sqrt(37_632), rel=1e-5)
    assert instances_of(distances, 30.0).tolist() == [0, 0, 1]


def test_chain_of_close_images_is_one_instance() -> None:
    """a-b and b-c are close and a-c is not: all three belong together, and d stands alone."""
    distances = np.array([[0.0, 20, 40, 99], [20, 0, 20, 99], [40, 20, 0, 99], [99, 99, 99, 0]])
    assert instances_of(distances, 30.0).tolist() == [0, 0, 0, 1]


def test_chain_of_images_is_one_instance() -> None:
    base = np.random.default_rng(0).integers(60, 190, (SIZE, SIZE, 3)).astype(float)
    step = np.random.default_rng(1).normal(0, 4, base.shape)
    images = np.stack([(base + step * k).round() for k in (0, 1, 2)]).astype(np.uint8)
    distances = pixel_distances(images, "normalised")
    assert distances[0, 1] < 30 < distances[0, 2]
    assert distances[1, 2] < 30
    assert instances_of(distances, 30.0).tolist() == [0, 0, 0]


def test_distance_equal_to_the_threshold_is_not_below_it() -> None:
    distances = np.array([[0.0, 30.0], [30.0, 0.0]])
    assert instances_of(distances, 30.0).tolist() == [0, 1]
    assert instances_of(distances, math.nextafter(30.0, 31.0)).tolist() == [0, 0]


def test_instances_are_numbered_by_their_first_member() -> None:
    far = np.full((5, 5), 99.0)
    for i, j in ((0, 3), (1, 4)):
        far[i, j] = far[j, i] = 1.0
    np.fill_diagonal(far, 0)
    assert instances_of(far, 30.0).tolist() == [0, 1, 2, 0, 1]


def test_medoid_has_the_least_sum_of_distances_in_its_instance() -> None:
    distances = np.array([[0.0, 20, 40, 1], [20, 0, 20, 90], [40, 20, 0, 90], [1, 90, 90, 0]])
    instances = np.array([0, 0, 0, 1])  # the fourth is near the first, but of another instance: it does not count
    assert medoids(distances, instances).tolist() == [1, 1, 1, 3]


def test_first_image_is_kept_on_a_tie() -> None:
    distances = np.array([[0.0, 5, 9, 9], [5, 0, 9, 9], [9, 9, 0, 5], [9, 9, 5, 0]])
    assert medoids(distances, np.array([0, 0, 1, 1])).tolist() == [0, 0, 2, 2]
    assert medoids(np.zeros((3, 3)), np.zeros(3, dtype=np.int64)).tolist() == [0, 0, 0]


# --- the stage -------------------------------------------------------------------------------------------------------


class Given(FaceSource):
    """Images from memory."""

    class Settings(FaceSettings):
        source: Literal["given"] = "given"

    def __init__(self, images: dict[str, list[NDArray[np.uint8]]]) -> None:
        super().__init__(self.Settings(size=SIZE))
        self.images = {f"{who}/{n}": image for who, shots in images.items() for n, image in enumerate(shots)}

    def fingerprint(self) -> Any:
        return 0

    def index(self) -> Table:
        return Table({"image": list(self.images), "identity": [name.split("/")[0] for name in self.images]})

    def read(self, rows: Table) -> list[NDArray[np.uint8] | UnreadableError]:
        return [self.images[name] for name in rows["image"]]


def captured(
    images: dict[str, list[NDArray[np.uint8]]], folder: Path, scale: PixelScale = "input"
) -> tuple[Table, Table]:
    source = Given(images)
    collect(source, folder)
    find_captures(Faces(folder, source), CaptureSettings(threshold=30.0, scale=scale), folder)
    return Table.read(folder / "captures.parquet"), Table.read(folder / "dropped.parquet")


def naive_captures(
    names: list[str], images: Images, threshold: float, scale: PixelScale
) -> tuple[list[int], dict[str, tuple[str, float]]]:
    """(instance of each image, what is dropped: image kept instead and the distance to it), by flooding."""
    n = len(names)
    distance = [[naive_distance(images[i], images[j], scale) if i != j else 0.0 for j in range(n)] for i in range(n)]
    instance = [-1] * n
    for start in range(n):
        if instance[start] < 0:
            instance[start] = max(instance) + 1
            front = [start]
            while front:
                i = front.pop()
                for j in range(n):
                    if instance[j] < 0 and distance[i][j] < threshold:
                        instance[j] = instance[start]
                        front.append(j)
    dropped: dict[str, tuple[str, float]] = {}
    for number in set(instance):
        members = [i for i in range(n) if instance[i] == number]
        sums = [round(sum(distance[i][j] for j in members), 3) for i in members]
        keeper = members[sums.index(min(sums))]
        dropped |= {names[i]: (names[keeper], distance[i][keeper]) for i in members if i != keeper}
    return instance, dropped


@pytest.mark.parametrize("scale", SCALES)
def test_stage_against_brute_force(tmp_path: Path, scale: PixelScale) -> None:
    rng = np.random.default_rng(4)
    images: dict[str, list[NDArray[np.uint8]]] = {}
    for person in ("anna", "bert", "carl"):
        shots = [*noise(2, int(rng.integers(1000)))]
        for _ in range(2):
            shots += list(
                burst(noise(1, int(rng.integers(1000)))[0], int(rng.integers(2, 5)), 5.0, int(rng.integers(99)))
            )
        images[person] = [shots[i] for i in rng.permutation(len(shots))]
    images["dora"] = [images["anna"][0]]  # the same image of another identity: never compared
    captures, dropped = captured(images, tmp_path, scale)
    said = {row["image"]: row for row in dropped.rows()}
    for person, shots in images.items():
        names = [f"{person}/{n}" for n in range(len(shots))]
        rows = captures.where(captures["identity"] == person)
        instance, naive_dropped = naive_captures(names, np.stack(shots), 30.0, scale)
        assert rows["image"].tolist() == names
        assert rows["capture"].tolist() == instance
        assert rows["kept"].tolist() == [name not in naive_dropped for name in names]
        assert {name for name in said if name.startswith(person)} == set(naive_dropped)
        for name, (keeper, distance) in naive_dropped.items():
            assert said[name]["kept_image"] == keeper
            assert said[name]["distance"] == pytest.approx(distance, rel=1e-3)
            assert said[name]["identity"] == person
    assert len(dropped) > 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["images"] == len(captures)
    assert summary["dropped"] == len(dropped)
    assert summary["scale"] == scale
    assert summary["capture_instances"] == len(captures) - len(dropped)
    assert summary["threshold_at_this_size"] == pytest.approx(30 * math.sqrt(SIZE * SIZE * 3 / 37_632))


def test_each_instance_keeps_exactly_one_image(tmp_path: Path) -> None:
    shots = [*burst(noise(1)[0], 4, 5.0, 0), *noise(2, 9)]
    captures, _ = captured({"anna": shots}, tmp_path)
    kept = captures.where(captures["kept"])
    assert sorted(kept["capture"]) == [0, 1, 2]
    assert captures["capture"].tolist() == [0, 0, 0, 0, 1, 2]


def test_identical_images_keep_the_first_by_name(tmp_path: Path) -> None:
    image = noise(1)[0]
    captures, dropped = captured({"anna": [image, image, image]}, tmp_path)
    assert captures["kept"].tolist() == [True, False, False]
    assert dropped["image"].tolist() == ["anna/1", "anna/2"]
    assert set(dropped["kept_image"]) == {"anna/0"}
    assert dropped["distance"] == pytest.approx([0, 0], abs=1e-3)


def test_nothing_dropped_is_a_readable_table_of_no_rows(tmp_path: Path) -> None:
    captures, dropped = captured({"anna": list(noise(3))}, tmp_path)
    assert captures["kept"].all()
    assert len(dropped) == 0
    assert list(dropped.columns) == ["image", "identity", "kept_image", "distance"]


def test_brighter_copy_is_another_moment_on_the_input_scale_only(tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 200, (SIZE, SIZE, 3), dtype=np.uint8)
    shots = {"anna": [image, image + 40]}
    assert captured(shots, tmp_path, "input")[0]["capture"].tolist() == [0, 1]
    assert captured(shots, tmp_path, "normalised")[0]["capture"].tolist() == [0, 0]
