"""Find the source that a path leads to, so that people need to name only their data."""

import glob
import os
from pathlib import Path
from typing import Any

from damnatio.recipe.schema import FaceSettings
from damnatio.recipe.sentences import validated
from damnatio.support.errors import DamnatioError

ENDINGS = {".csv": "manifest", ".parquet": "manifest", ".rec": "recordio", ".tar": "webdataset", ".bin": "pairs_bin"}
KINDS = "a folder of identities, a .csv or .parquet manifest, a .rec, .tar shards, or a .bin of pairs"


def is_source(path: str | Path) -> bool:
    """Whether this names faces rather than a recipe: a folder, or a file with the ending of one of the sources."""
    place = Path(path).expanduser()
    return place.suffix.lower() in ENDINGS or place.is_dir()


def at_hand(settings: FaceSettings) -> bool:
    """Whether there is anything where these faces should be; rendered faces are everywhere."""
    said = settings.model_dump(include={"root", "path", "pools"}, exclude_none=True)
    places = said.get("pools", {}).values() or [said[key] for key in ("path", "root") if key in said][:1]
    return all(place.expanduser().exists() or glob.glob(str(place.expanduser())) for place in places)


def detect(path: str | Path, **given: Any) -> FaceSettings:
    """The settings of the source at this path, and the `given` ones, such as `size`.

    A folder that holds `train.rec`, or a single .rec, is read as records. A folder that holds .tar files is read as
    shards, any other folder as a folder of identities. A pattern such as `data/train-*.tar` names shards.
    """
    place = Path(path).expanduser()
    if place.is_dir():
        source, place = _of_folder(place)
    elif place.exists() or glob.glob(str(place)):
        source = ENDINGS.get(place.suffix.lower(), "")
    else:
        raise DamnatioError(f"There is nothing at {path}.")
    if not source:
        raise DamnatioError(f"{path} is no source of faces. A source is {KINDS}.")
    from damnatio.faces import SOURCES

    where = {"source": source, "root" if source == "folder" else "path": place}
    return validated(SOURCES.get(source).Settings, {**where, **given}, path, "faces")


def _of_folder(folder: Path) -> tuple[str, Path]:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith((".rec", ".tar")))
        names = [name for name in names if os.path.isfile(folder / name)]
    except OSError as error:
        raise DamnatioError(f"The folder {folder} cannot be read: {error.strerror}.") from error
    records = [name for name in names if name.endswith(".rec")]
    if records:
        if len(records) > 1 and "train.rec" not in records:
            raise DamnatioError(f"The folder {folder} holds several records ({', '.join(records[:5])}): name one.")
        return "recordio", folder / ("train.rec" if len(records) > 1 else records[0])
    return ("webdataset", folder) if names else ("folder", folder)
