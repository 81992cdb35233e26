"""A task of a recipe as a job of Slurm, which runs `damnatio run RECIPE --task NAME` on one of its machines."""

import os
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """The words of the command, and the folder that it is run in. Slurm's machines get it by pickle, from a file that
    the run's owner wrote."""

    words: Sequence[str]
    folder: str

    def __call__(self) -> None:
        from damnatio.support.waiting import choose_waiting

        choose_waiting()  # before torch is loaded
        from damnatio.cli.main import main
        from damnatio.running.slurm import in_job

        os.chdir(self.folder)
        in_job(lambda: main(list(self.words)))
