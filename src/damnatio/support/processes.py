"""Several processes on one job, as `torchrun` starts them; a single process is a group of one.

Every process runs the same code in the same order. The first one, the main process, writes files and prints lines; the
others compute their share. Tensors of a processor travel over gloo and those of a GPU over NCCL.

Nobody waits forever for a process that died: its connections close, and torchrun, srun or our own pool ends the others.
So the timeout is long: the others wait while the main process does alone what cannot be shared.
"""

import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from damnatio.support.errors import DamnatioError

T = TypeVar("T")
PATIENCE = timedelta(days=7)
STORE = "DAMNATIO_STORE"
"""the environment's name for the file by which processes of one machine find each other; others do as torchrun says"""
_CONNECTION = "gloo/transport/"
"""what gloo puts into the text of its errors, which have no class"""
_alone = False
"""whether the main process is at work by itself, in `from_main`: it is a group of one then"""


class MainFailedError(DamnatioError):
    """An error of the main process, in every other one. The main process reports it."""

    is_news = False


def join() -> None:
    """Become one of the processes that torchrun or Slurm started. Without them, nothing happens."""
    if size() > 1 or int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return
    import torch
    from torch import distributed

    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    where = f"file://{os.environ[STORE]}" if STORE in os.environ else "env://"
    me, all_ = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    distributed.init_process_group(backend, init_method=where, timeout=PATIENCE, rank=me, world_size=all_)


def leave() -> None:
    """End the group."""
    if size() > 1:
        from torch import distributed

        distributed.destroy_process_group()


def size() -> int:
    """The number of processes."""
    if _alone or "torch" not in sys.modules:  # nobody has joined, and importing it takes seconds
        return 1
    from torch import distributed

    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """The number of this process, from 0."""
    if size() == 1:
        return 0
    from torch import distributed

    return distributed.get_rank()


def is_main() -> bool:
    """Whether this process writes and prints."""
    return rank() == 0


def wait() -> None:
    """Go on when every process is here."""
    if size() > 1:
        from torch import distributed

        distributed.all_gather_object([None] * size(), None)  # over gloo: a GPU is not needed to wait


def from_main(work: Callable[[], T]) -> T:
    """What `work` returns in the main process, in every process. An error there is an error everywhere. Inside `work`
    the main process is a group of one, so that code which shares its work does not wait for the others there."""
    global _alone  # noqa: PLW0603
    if size() == 1:
        return work()
    from torch import distributed

    sent: list[object] = [None, None]
    failure: BaseException | None = None
    if is_main():
        try:
            _alone = True
            sent[0] = work()
        except BaseException as error:
            failure, sent[1] = error, str(error) or type(error).__name__
        finally:
            _alone = False
    distributed.broadcast_object_list(sent, src=0)
    if failure is not None:
        raise failure
    if sent[1] is not None:
        raise MainFailedError(str(sent[1]))
    return sent[0]  # type: ignore[return-value]


def from_all(mine: T) -> list[T]:
    """What each process has, by rank, in every process."""
    if size() == 1:
        return [mine]
    from torch import distributed

    gathered: list[T | None] = [None] * size()
    distributed.all_gather_object(gathered, mine)
    return gathered  # type: ignore[return-value]


def lost_another(error: BaseException) -> bool:
    """Whether an error says no more than that another process ended, whose part in the work was waited for."""
    return size() > 1 and isinstance(error, RuntimeError) and _CONNECTION in str(error)


def share_of(count: int, place: tuple[int, int] | None = None) -> slice:
    """The contiguous share of this process in `count` items. The shares of all processes follow each other and differ
    by one item at most. `place` is the rank and the size to use instead of this process's own."""
    of, among = place or (rank(), size())
    return slice(count * of // among, count * (of + 1) // among)


def joined(mine: NDArray[np.generic]) -> NDArray[np.generic]:
    """The rows of all processes in the order of their ranks, in every process."""
    return mine if size() == 1 else np.concatenate(from_all(mine))
