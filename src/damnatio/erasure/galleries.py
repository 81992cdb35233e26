"""A gallery of templates as strangers: an .npz of `embeddings` [n, d] under the model, and `names` [n]."""

import zipfile
from pathlib import Path

import numpy as np

from damnatio.erasure.request import GALLERY
from damnatio.methods.strangers import Strangers
from damnatio.support.errors import DamnatioError
from damnatio.support.files import need_regular
from damnatio.support.tables import codes_of

KEYS = ("embeddings", "names")


def read_gallery(path: Path, dim: int) -> Strangers:
    """The templates of a file, checked. Nothing in the file is run: pickled arrays are refused."""
    need_regular(path, "The gallery")
    expected = "an .npz with `embeddings` [n, d] and `names` [n] is expected"
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [key for key in KEYS if key not in file.files]
            if missing:
                raise DamnatioError(f"The gallery {path} has no array `{missing[0]}`: {expected}.")
            vectors, names = (file[key] for key in KEYS)
    except FileNotFoundError:
        raise DamnatioError(f"There is no gallery {path}.") from None
    except (OSError, ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        said = " ".join(str(error).split())[:120]
        raise DamnatioError(f"The gallery {path} cannot be read ({said}): {expected}.") from None
    if vectors.ndim != 2 or names.shape != vectors.shape[:1] or not len(names) or vectors.dtype.kind != "f":
        raise DamnatioError(f"The gallery {path}: `embeddings` and `names` do not fit each other: {expected}.")
    if vectors.shape[1] != dim:
        raise DamnatioError(
            f"The gallery {path} holds vectors of {vectors.shape[1]} values, and the model makes {dim}: they are of "
            "another model."
        )
    vectors = vectors.astype(np.float64)
    lengths = np.linalg.norm(vectors, axis=1)
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise DamnatioError(f"The gallery {path}: the template of {names[bad[0]]} is zero or not finite: remove it.")
    owners = np.array([f"{GALLERY}/{name}" for name in names], dtype=object)
    codes, people = codes_of(owners)
    return Strangers(vectors / lengths[:, None], codes, [str(name) for name in people])
