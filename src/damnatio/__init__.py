"""Damnatio makes a face recognition model forget chosen people, and proves it."""

import os
from importlib.metadata import version

# OpenMP reads this when torch is loaded, so it stands where nothing has loaded torch yet. By default its threads spin
# while they wait for each other, and a run slows down several times where another process takes one of its cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = version("damnatio")
