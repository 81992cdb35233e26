"""What each image does when recognition is measured: roles, and how they are drawn."""

from damnatio.protocol.roles import Members, split

__all__ = ["Members", "split"]
