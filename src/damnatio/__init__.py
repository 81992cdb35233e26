"""Damnatio makes a face recognition model forget chosen people, and proves it."""

from importlib.metadata import version

__version__ = version("damnatio")
