"""Sources of aligned faces, by name. A source indexes its images into a table and reads any of them by row."""

from typing import TYPE_CHECKING

from damnatio.faces.detection import detect
from damnatio.support.registry import Registry

if TYPE_CHECKING:
    from damnatio.faces.base import FaceSource

SOURCES: Registry[type["FaceSource"]] = Registry("face source", __name__)

__all__ = ["SOURCES", "detect"]
