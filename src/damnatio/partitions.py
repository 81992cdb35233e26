"""Stage 3: which partition each identity belongs to, drawn once from one seed (IV-C and IV-D of the paper).

The table has one row per image:

| column      | values                                                                                                |
|-------------|-------------------------------------------------------------------------------------------------------|
| `row`       | the image's row in `faces.parquet`                                                                    |
| `image`     | the name of the image                                                                                 |
| `identity`  | the name of its identity                                                                              |
| `partition` | `R` retain (trained), `T` test, `D` development, `G` distractor, `F` forget, `B` bystander, `-` unused |
| `control`   | whether the identity is in the retain control                                                         |
| `scale`     | the smallest scale that holds a forget identity (`S1` is inside `S2`), else empty                     |
| `role`      | `enrol` or `probe` (control, T), `train`, `eval` or `dropped` (F), else empty                         |
| `label`     | the class of a retain identity, else -1                                                               |
| `bystander` | whether the image is compared as one of a bystander at every scale                                    |

A forget image is `dropped` if another image is kept of its capture instance.

A bystander is an identity of the same collection as the forget identities that is not to be forgotten. Test identities
that could have been drawn as forget identities are bystanders; so is everybody in the pool `partitions.pools.B` who has
two capture instances and no other partition; and at a scale, so are the forget identities of larger scales. One image
of each of their capture instances is compared, as of the forget identities.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from damnatio.faces.base import POOL
from damnatio.protocol import roles
from damnatio.protocol.roles import Members
from damnatio.recipe.schema import PartitionSettings
from damnatio.support.errors import DamnatioError, nearest
from damnatio.support.files import need_regular, write_atomically
from damnatio.support.tables import Table, codes_of, groups_of

RETAIN, TEST, DEVELOPMENT, DISTRACTOR, FORGET, BYSTANDER, UNUSED = "R", "T", "D", "G", "F", "B", "-"
ENROL, PROBE, TRAIN, EVAL, DROPPED = "enrol", "probe", "train", "eval", "dropped"
FILE, COUNTS = "partitions.parquet", "counts.parquet"
TEXTS = ("image", "identity", "partition", "scale", "role")
COLUMNS = ("row", "control", *TEXTS)
MARK = "bystander"
"""the column that marks the images of bystanders; tables of older versions lack it and have no bystanders"""
SCALES = "scales"
"""the entry of the Parquet file's metadata that holds the number of forget identities at each scale"""

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Partitions:
    """The table above, and the number of forget identities at each scale. A larger scale holds the smaller ones.

    The masks have one entry per row of the table.
    """

    table: Table
    scales: dict[str, int]

    # --- masks ------------------------------------------------------------------------------------------------------

    def has(self, partition: str, role: str = "") -> Mask:
        """The images of a partition; only those of one role if a role is named."""
        return self._with_role(self.table["partition"] == partition, role)

    def in_forget_set(self, scale: str, role: str = "") -> Mask:
        """The images of the forget set at a scale; only those of one role if a role is named."""
        inside = [name for name, count in self.scales.items() if count <= self.scales[scale]]
        return self._with_role(self.has(FORGET) & np.isin(self.table["scale"].astype(str), inside), role)

    def bystanders(self, scale: str = "") -> Mask:
        """The images of bystanders that are compared. At a scale, whoever is forgotten only at a larger one is a
        bystander too."""
        marked = self.table[MARK] if MARK in self.table.columns else np.zeros(len(self.table))
        spared = self.has(FORGET) & ~self.in_forget_set(scale) & (self.table["role"] != DROPPED) if scale else False
        return marked.astype(bool) | spared

    def members(self, scale: str) -> Members:
        """What each image does at a scale."""
        kept = {RETAIN: roles.RETAIN, DEVELOPMENT: roles.DEVELOPMENT, DISTRACTOR: roles.DISTRACTOR}
        words = np.array([kept.get(name, roles.UNUSED) for name in self.table["partition"]], object)
        for partition, role, word in (
            (RETAIN, ENROL, roles.RETAIN_ENROL),
            (RETAIN, PROBE, roles.RETAIN_PROBE),
            (TEST, ENROL, roles.TEST_ENROL),
            (TEST, PROBE, roles.TEST_PROBE),
        ):
            words[self.has(partition, role)] = word
        for role, word in ((TRAIN, roles.SEEN), (EVAL, roles.NEW)):
            words[self.in_forget_set(scale, role)] = word
        return Members(self.table["image"], self.table["identity"], words, self.bystanders(scale))

    def _with_role(self, mask: Mask, role: str) -> Mask:
        return (mask & (self.table["role"] == role) if role else mask).astype(bool)

    # --- what the stages read ---------------------------------------------------------------------------------------

    def retain(self) -> tuple[Rows, NDArray[np.int64]]:
        """Rows and labels of all images of the retain identities: the training set of f*."""
        retain = self.table.where(self.has(RETAIN))
        return retain["row"].astype(np.int64), retain["label"].astype(np.int64)

    def forget(self, scale: str) -> tuple[Rows, NDArray[np.int64]]:
        """Rows and identity codes of the forget-train images at a scale: a method sees no other forget images."""
        seen = self.table.where(self.in_forget_set(scale, TRAIN))
        return seen["row"].astype(np.int64), codes_of(seen["identity"])[0]

    def trained(self) -> Rows:
        """Rows of all images that fine-tuning reads at some scale."""
        return np.concatenate([self.retain()[0], self._rows(self.has(FORGET, TRAIN))])

    def evaluated(self, scale: str = "") -> Rows:
        """Rows of all images that an evaluation compares at a scale; without one, at any scale. Retain identities
        outside the control, dropped images and unused identities are not compared."""
        used = self.has(TEST) | self.has(DEVELOPMENT) | self.has(DISTRACTOR) | self.table["control"].astype(bool)
        used |= self.bystanders()
        forget = self.in_forget_set(scale) if scale else self.has(FORGET)
        return self._rows(used | (forget & (self.table["role"] != DROPPED)))

    def at(self, rows: Rows) -> "Partitions":
        """The partitions of the images at these rows only, in this order."""
        return Partitions(self.table.where(rows), self.scales)

    def _rows(self, mask: Mask) -> Rows:
        rows: Rows = self.table["row"][mask.astype(bool)].astype(np.int64)
        return rows

    # --- on disk ----------------------------------------------------------------------------------------------------

    @staticmethod
    def read(path: Path) -> "Partitions":
        """The partitions in a file that `write` wrote, in the order of its rows; any other file is refused."""
        need_regular(path)  # Arrow would read a folder of tables as one
        table, metadata = Table.read(path), Table.read_metadata(path)
        missing = [name for name in COLUMNS if name not in table.columns]
        if missing:
            raise DamnatioError(f"{path} is no table of partitions: it has no column {', '.join(missing)}.")
        for name in TEXTS:
            if not all(isinstance(value, str) for value in table[name]):
                raise DamnatioError(f"{path}: the column '{name}' must hold text.")
        if table["row"].dtype.kind not in "iu":
            raise DamnatioError(f"{path}: the column 'row' must hold whole numbers.")
        for name in ("control", MARK):
            if name in table.columns and table[name].dtype != bool:
                raise DamnatioError(f"{path}: the column '{name}' must hold true or false.")
        table = table.where(np.argsort(table["row"], kind="stable"))
        if not np.array_equal(table["row"], np.arange(len(table))):
            raise DamnatioError(f"{path} is not a whole table of partitions: its rows are not 0 to {len(table) - 1}.")
        return Partitions(table, _scales(path, table, metadata.get(SCALES)))

    def write(self, folder: Path) -> None:
        """Write `partitions.parquet`, the counts of the paper's Table II, and the names of the forget identities that
        have no eval image (`train_only.json`)."""
        self.table.write(folder / FILE, {SCALES: json.dumps(self.scales)})
        table = counts(self)
        table.write(folder / COUNTS)
        write_atomically(folder / "counts.json", json.dumps(table.rows(), indent=1) + "\n")
        forget, evaluated = (self.table["identity"][mask] for mask in (self.has(FORGET), self.has(FORGET, EVAL)))
        short = sorted(set(forget) - set(evaluated))
        write_atomically(folder / "train_only.json", json.dumps(short, indent=1) + "\n")


def _scales(path: Path, table: Table, written: str | None) -> dict[str, int]:
    """The scales in the file's metadata. A file without metadata may hold one scale."""
    present = sorted({str(name) for name in table["scale"][table["partition"] == FORGET]})
    try:
        scales = json.loads(written) if written else {}
        known = {str(name): int(count) for name, count in scales.items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise DamnatioError(
            f"{path}: the sizes of its scales are not readable. Run the stage `partitions` again."
        ) from None
    if not present:
        raise DamnatioError(f"{path} has no forget identities, and there is nothing to measure without them.")
    if set(present) <= set(known):
        return known
    if len(present) > 1:
        raise DamnatioError(
            f"{path} does not say which of its scales {', '.join(present)} holds the other: take the file from the "
            "folder of the run."
        )
    return {present[0]: len(set(table["identity"][table["partition"] == FORGET]))}


@dataclass(frozen=True)
class _Share:
    """What a setting asks for: so many identities of a partition, of those who are allowed."""

    partition: str
    setting: str
    count: int
    allowed: Mask
    what: str
    least: int = 1
    """images that an identity must have"""


def draw(captures: Table, settings: PartitionSettings, seed: int) -> Partitions:
    """The partition of every image.

    With the order `retain-first`, the retain set is a sample of everybody and the others are drawn from the rest, each
    partition in an order of its own. With `scarcest-first`, the partitions that ask for most images come first, and
    all go through one order: nobody is wasted who has the images that a partition asks for, but whoever comes later
    gets fewer well-covered people.
    """
    codes, pool_of = _numbered(captures)
    pools = {str(partition): pool for partition, pool in (settings.pools or {}).items()}
    _check_pools(pools, pool_of)
    images = np.bincount(codes)
    instances = np.bincount(codes, weights=captures["kept"]).astype(np.int64)
    counted = images if settings.forget_counts == "images" else instances
    forgettable = (counted >= settings.forget_min_images) & (instances >= 2)  # one instance has no pair to unlink
    rng = np.random.default_rng([seed, 3])
    common = rng.permutation(len(pool_of))
    partition_of = np.full(len(pool_of), UNUSED, dtype=object)

    def order_of(partition: str) -> NDArray[np.int64]:
        if settings.order == "scarcest-first":
            return common
        own = (RETAIN, FORGET, TEST, DEVELOPMENT, DISTRACTOR).index(partition)
        return np.random.default_rng([seed, 3, own]).permutation(len(pool_of))

    def pool_for(partition: str) -> str | None:
        return pools.get(partition, pools.get(RETAIN))

    def inside(partition: str) -> Mask:
        """The identities that a partition may be drawn from."""
        pool = pool_for(partition)
        return np.ones(len(pool_of), dtype=bool) if pool is None else (pool_of == pool).astype(bool)

    def take(share: _Share) -> NDArray[np.int64]:
        there, order = inside(share.partition), order_of(share.partition)
        free = order[(partition_of[order] == UNUSED) & (share.allowed & there)[order]]
        if len(free) < share.count:
            pool = pool_for(share.partition)
            where = "" if pool is None else f" in the pool '{pool}'"
            raise DamnatioError(
                f"Too few identities: partitions.{share.setting} asks for {share.count:,} {share.what}, and "
                f"{len(free):,} are left of {there.sum():,}{where}. {_needed(settings)} Bring more faces, lower the "
                "counts under 'partitions'"
                + (", or set partitions.order: scarcest-first." if settings.order == "retain-first" else ".")
            )
        taken: NDArray[np.int64] = free[: share.count]
        partition_of[taken] = share.partition
        return taken

    shares = _shares(settings, images, forgettable)
    drawn = {share.setting: take(share) for share in shares}
    sizes = sorted(settings.scales.items(), key=lambda item: item[1])
    control, forget = drawn["control"], drawn[f"scales.{sizes[-1][0]}"]
    if BYSTANDER in pools:
        partition_of[(partition_of == UNUSED) & (pool_of == pools[BYSTANDER]) & (instances >= 2)] = BYSTANDER
    bystander = (partition_of == BYSTANDER) | ((partition_of == TEST) & forgettable & inside(FORGET))

    scale = np.full(len(pool_of), "", dtype=object)
    for name, count in reversed(sizes):
        scale[forget[:count]] = name
    retain = np.sort(np.concatenate([control, drawn["retain"]]))
    label = np.full(len(pool_of), -1, dtype=np.int64)
    label[retain] = np.arange(len(retain))
    table = Table(
        {
            "row": np.arange(len(codes)),
            "image": captures["image"],
            "identity": captures["identity"],
            "partition": partition_of[codes],
            "control": np.isin(codes, control),
            "scale": scale[codes],
            "role": _roles(codes, partition_of, control, captures["kept"], settings.forget_train, rng),
            "label": label[codes],
            MARK: bystander[codes].astype(bool) & captures["kept"].astype(bool),
        }
    )
    return Partitions(table, dict(settings.scales))


def _shares(settings: PartitionSettings, images: NDArray[np.int64], forgettable: Mask) -> list[_Share]:
    """All that is drawn, in the order of the drawing. The further retain identities follow the control in the same
    order, so that together they are its beginning wherever that holds enough people for the control."""

    def compared(partition: str, setting: str, what: str, least: int) -> _Share:
        words = f"{what} identities with at least {least} image{'s' * (least > 1)}"
        return _Share(partition, setting, getattr(settings, setting), images >= least, words, least)

    control = compared(RETAIN, "control", "retain control", settings.min_images)
    tested = [
        compared(TEST, "test", "test", settings.test_min_images or settings.min_images),
        compared(DEVELOPMENT, "development", "development", settings.development_min_images or settings.min_images),
    ]
    further = settings.retain - settings.control
    rest = _Share(RETAIN, "retain", further, images >= 1, "further retain identities")
    distractors = _Share(DISTRACTOR, "distractors", settings.distractors, images >= 1, "distractors")
    scale, count = sorted(settings.scales.items(), key=lambda item: item[1])[-1]
    counted = "images" if settings.forget_counts == "images" else "capture instances"
    words = f"forget identities with at least {settings.forget_min_images} {counted}"
    forget = _Share(FORGET, f"scales.{scale}", count, forgettable, words)
    if settings.order == "scarcest-first":
        return [forget, *_scarcest_first([*tested, control]), rest, distractors]
    return [control, rest, forget, *_scarcest_first(tested), distractors]


def _scarcest_first(shares: list[_Share]) -> list[_Share]:
    return sorted(shares, key=lambda share: -share.least)


def _numbered(captures: Table) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
    """The code of each image's identity, and the pool of each identity ("" where the faces have no pools). Identities
    are numbered by pool, then by name: this order decides the draw."""
    codes, identities = codes_of(captures["identity"])
    pool_of = np.full(len(identities), "", dtype=object)
    if POOL in captures.columns:
        pool_of[codes] = captures[POOL]
    order = np.argsort(pool_of, kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place[codes], pool_of[order]


def _check_pools(pools: Mapping[str, str], pool_of: NDArray[np.object_]) -> None:
    known = set(pool_of) - {""}
    for partition, pool in pools.items():
        if pool not in known:
            raise DamnatioError(
                f"partitions.pools.{partition}: the faces have no pool '{pool}'.{nearest(pool, known)}"
                + " Take 'source: collection', which has pools." * (not known)
            )


def _roles(
    codes: NDArray[np.int64],
    partition_of: NDArray[np.object_],
    control: NDArray[np.int64],
    kept: NDArray[np.bool_],
    train_share: float,
    rng: np.random.Generator,
) -> NDArray[np.object_]:
    role = np.full(len(codes), "", dtype=object)
    compared = set(np.flatnonzero(partition_of == TEST)) | set(control)
    for rows in groups_of(codes):
        identity = codes[rows[0]]
        if identity in compared:  # the first half enrols, the second half probes; an odd image is a probe
            role[rows] = np.where(np.arange(len(rows)) < len(rows) // 2, ENROL, PROBE)
        elif partition_of[identity] == FORGET:
            single = rng.permutation(rows[kept[rows]])
            evaluated = min(round((1 - train_share) * len(single)), len(single) - 1)
            role[rows] = DROPPED
            role[single] = TRAIN
            role[single[:evaluated]] = EVAL
    return role


def _needed(settings: PartitionSettings) -> str:
    names = ("retain", "test", "development", "distractors")
    counts = {name: getattr(settings, name) for name in names} | {"the largest scale": max(settings.scales.values())}
    each = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    return f"This recipe needs {sum(counts.values()):,} identities in all ({each})."


def counts(partitions: Partitions) -> Table:
    """The paper's Table II for this run: identities of each partition and mated comparisons of each group."""
    rows = []
    for scale in partitions.scales:
        counted = partitions.in_forget_set(scale) | ~partitions.has(FORGET)
        member = partitions.table.where(counted)
        bystander, names = partitions.bystanders(scale), partitions.table["identity"]
        partition, role, identity = member["partition"], member["role"], member["identity"]
        compared = member["control"] | (partition == TEST)

        def distinct(mask: NDArray[np.bool_], identity: NDArray[np.object_] = identity) -> int:
            return len(set(identity[mask]))

        train, evaluated = _per_identity(identity, role == TRAIN), _per_identity(identity, role == EVAL)
        rows.append(
            {
                "scale": scale,
                "F": distinct(partition == FORGET),
                "R": distinct(member["control"]),
                "T": distinct(partition == TEST),
                "B": len(set(names[bystander])),
                "Distr.": distinct(partition == DISTRACTOR),
                "D": distinct(partition == DEVELOPMENT),
                "R trained": distinct(partition == RETAIN),
                "mated R": int((compared & (partition == RETAIN) & (role == PROBE)).sum()),
                "mated T": int((compared & (partition == TEST) & (role == PROBE)).sum()),
                "mated T single": _pairs(_per_identity(identity, partition == TEST)),
                "mated B": _pairs(_per_identity(names, bystander)),
                "mated F ev-ev": _pairs(evaluated),
                "mated F tr-tr": _pairs(train),
                "mated F tr-ev": sum(n * evaluated.get(name, 0) for name, n in train.items()),
                "mated F tr->ev": int((role == EVAL).sum()),
                "F images dropped": int((role == DROPPED).sum()),
                "F train only": sum(name not in evaluated for name in train),
            }
        )
    return Table.of_rows(list(rows[0]), [list(row.values()) for row in rows])


def _per_identity(identity: NDArray[np.object_], mask: NDArray[np.bool_]) -> dict[str, int]:
    names, numbers = np.unique(identity[mask], return_counts=True)
    return dict(zip(names.tolist(), numbers.tolist(), strict=True))


def _pairs(images: Mapping[str, int]) -> int:
    """How many pairs of images of one identity there are."""
    return sum(n * (n - 1) // 2 for n in images.values())
