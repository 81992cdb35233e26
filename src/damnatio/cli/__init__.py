"""The command line: one file per family of verbs, its arguments beside its action."""

from damnatio.cli.main import main

__all__ = ["main"]
