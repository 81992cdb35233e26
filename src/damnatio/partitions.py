"""Stage 3: who plays which part, drawn once from one seed and saved as a table (IV-C and IV-D of the paper).

One row an image:

| column      | values                                                                                     |
|-------------|--------------------------------------------------------------------------------------------|
| `row`       | the image's row in `faces.parquet`                                                          |
| `image`, `identity` | their names                                                                        |
| `partition` | `R` retain (trained), `T` test, `D` development, `G` distractor, `F` forget, `-` not used   |
| `control`   | whether the identity is of the retain control                                               |
| `scale`     | the smallest scale that holds a forget identity: `S1` is inside `S2`                        |
| `role`      | `enrol` or `probe` (R, T), `train` or `eval` (F), `dropped` (F, a capture instance's other images) |
| `label`     | the class of a retain identity, else -1                                                     |
"""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from damnatio.captures import groups_of
from damnatio.errors import DamnatioError
from damnatio.faces.collection import parts_of
from damnatio.recipe import PartitionSettings
from damnatio.tables import Table, codes_of
from damnatio.workspace import write_atomically

RETAIN, TEST, DEVELOPMENT, DISTRACTOR, FORGET, UNUSED = "R", "T", "D", "G", "F", "-"


def draw(captures: Table, settings: PartitionSettings, seed: int) -> Table:
    """The partition of every image. The scarcest parts are drawn first: forget, then test, development and control,
    and of these three the one that asks for more images before the one that asks for fewer."""
    codes, identities = codes_of(captures["identity"])
    images = np.bincount(codes)
    instances = np.bincount(codes, weights=captures["kept"]).astype(np.int64)
    rng = np.random.default_rng([seed, 3])
    order = rng.permutation(len(identities))
    part = np.full(len(identities), UNUSED, dtype=object)

    pool = parts_of(identities) if settings.pools else None

    def take(partition: str, setting: str, count: int, allowed: NDArray[np.bool_], what: str) -> NDArray[np.int64]:
        if settings.pools:
            allowed = allowed & (pool == settings.pools.get(partition, settings.pools["R"]))  # type: ignore[call-overload]
        free = order[(part[order] == UNUSED) & allowed[order]]
        if len(free) < count:
            raise DamnatioError(
                f"Too few identities: partitions.{setting} asks for {count:,} {what}, and {len(free):,} are left of "
                f"{len(identities):,}. {_needed(settings)} Bring more faces or lower the counts under 'partitions'."
            )
        taken: NDArray[np.int64] = free[:count]
        part[taken] = partition
        return taken

    sizes = sorted(settings.scales.items(), key=lambda item: item[1])
    forget = take(
        FORGET,
        f"scales.{sizes[-1][0]}",
        sizes[-1][1],
        instances >= settings.forget_min_images,
        f"forget identities with at least {settings.forget_min_images} capture instances",
    )
    wanted = [
        (settings.test_min_images or settings.min_images, TEST, "test", "test"),
        (settings.development_min_images or settings.min_images, DEVELOPMENT, "development", "development"),
        (settings.min_images, RETAIN, "control", "retain control"),
    ]
    drawn = {}
    for least, partition, setting, what in sorted(wanted, key=lambda part: -part[0]):
        words = f"{what} identities with at least {least} image{'s' * (least > 1)}"
        drawn[partition] = take(partition, setting, getattr(settings, setting), images >= least, words)
    control = drawn[RETAIN]
    rest = take(RETAIN, "retain", settings.retain - settings.control, images >= 1, "further retain identities")
    take(DISTRACTOR, "distractors", settings.distractors, images >= 1, "distractors")

    scale = np.full(len(identities), "", dtype=object)
    for name, count in reversed(sizes):
        scale[forget[:count]] = name
    retain = np.sort(np.concatenate([control, rest]))
    label = np.full(len(identities), -1, dtype=np.int64)
    label[retain] = np.arange(len(retain))
    return Table(
        {
            "row": np.arange(len(codes)),
            "image": captures["image"],
            "identity": captures["identity"],
            "partition": part[codes],
            "control": np.isin(codes, control),
            "scale": scale[codes],
            "role": _roles(codes, part, control, captures["kept"], settings.forget_train, rng),
            "label": label[codes],
        }
    )


def _roles(
    codes: NDArray[np.int64],
    part: NDArray[np.object_],
    control: NDArray[np.int64],
    kept: NDArray[np.bool_],
    train_share: float,
    rng: np.random.Generator,
) -> NDArray[np.object_]:
    role = np.full(len(codes), "", dtype=object)
    compared = set(np.flatnonzero(part == TEST)) | set(control)
    for rows in groups_of(codes):
        identity = codes[rows[0]]
        if identity in compared:  # the first half enrols, the second probes; of an odd number the probes are more
            role[rows] = np.where(np.arange(len(rows)) < len(rows) // 2, "enrol", "probe")
        elif part[identity] == FORGET:
            single = rng.permutation(rows[kept[rows]])
            evaluated = min(round((1 - train_share) * len(single)), len(single) - 1)
            role[rows] = "dropped"
            role[single] = "train"
            role[single[:evaluated]] = "eval"
    return role


def _needed(settings: PartitionSettings) -> str:
    names = ("retain", "test", "development", "distractors")
    counts = {name: getattr(settings, name) for name in names} | {"the largest scale": max(settings.scales.values())}
    parts = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    return f"This recipe needs {sum(counts.values()):,} identities in all ({parts})."


def at_scale(partitions: Table, scales: dict[str, int], scale: str) -> NDArray[np.bool_]:
    """Which images are of the forget set at this scale: a larger scale holds the smaller ones."""
    inside = [name for name, count in scales.items() if count <= scales[scale]]
    mask: NDArray[np.bool_] = (partitions["partition"] == FORGET) & np.isin(partitions["scale"].astype(str), inside)
    return mask


def retain_set(partitions: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and labels of all images of the retain identities: what f* is trained on."""
    retain = partitions.where(partitions["partition"] == RETAIN)
    return retain["row"].astype(np.int64), retain["label"].astype(np.int64)


def counts(partitions: Table, scales: dict[str, int]) -> Table:
    """The paper's Table II for this run: identities of each partition and mated comparisons of each group."""
    rows = []
    for scale in scales:
        member = partitions.where(at_scale(partitions, scales, scale) | (partitions["partition"] != FORGET))
        part, role, identity = member["partition"], member["role"], member["identity"]
        compared = member["control"] | (part == TEST)

        def distinct(mask: NDArray[np.bool_], identity: NDArray[np.object_] = identity) -> int:
            return len(set(identity[mask]))

        train, evaluated = _per_identity(identity, role == "train"), _per_identity(identity, role == "eval")
        rows.append(
            {
                "scale": scale,
                "F": distinct(part == FORGET),
                "R": distinct(member["control"]),
                "T": distinct(part == TEST),
                "Distr.": distinct(part == DISTRACTOR),
                "D": distinct(part == DEVELOPMENT),
                "R trained": distinct(part == RETAIN),
                "mated R": int((compared & (part == RETAIN) & (role == "probe")).sum()),
                "mated T": int((compared & (part == TEST) & (role == "probe")).sum()),
                "mated F ev-ev": sum(n * (n - 1) // 2 for n in evaluated.values()),
                "mated F tr-tr": sum(n * (n - 1) // 2 for n in train.values()),
                "mated F tr-ev": sum(n * evaluated.get(name, 0) for name, n in train.items()),
                "mated F tr->ev": int((role == "eval").sum()),
                "F images dropped": int((role == "dropped").sum()),
                "F train only": sum(name not in evaluated for name in train),
            }
        )
    return Table.of_rows(list(rows[0]), [list(row.values()) for row in rows])


def _per_identity(identity: NDArray[np.object_], mask: NDArray[np.bool_]) -> dict[str, int]:
    names, numbers = np.unique(identity[mask], return_counts=True)
    return dict(zip(names.tolist(), numbers.tolist(), strict=True))


def write(partitions: Table, scales: dict[str, int], folder: Path) -> None:
    partitions.write(folder / "partitions.parquet")
    table = counts(partitions, scales)
    table.write(folder / "counts.parquet")
    write_atomically(folder / "counts.json", json.dumps(table.rows(), indent=1) + "\n")
    forget = partitions.where(partitions["partition"] == FORGET)
    short = sorted(set(forget["identity"]) - set(forget["identity"][forget["role"] == "eval"]))
    write_atomically(folder / "train_only.json", json.dumps(short, indent=1) + "\n")
