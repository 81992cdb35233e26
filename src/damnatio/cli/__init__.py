"""The command line: one file per family of verbs."""

from damnatio.cli.main import main

__all__ = ["main"]
