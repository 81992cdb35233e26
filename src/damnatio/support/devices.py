"""The device that computes, how many threads it uses, and how it asks for memory."""

import ctypes
import sys
from functools import cache

import torch

_TRIM, _PADDING, _MAP = -1, -2, -3
"""parameters of glibc's `mallopt`: when freed memory is returned, how much is asked for at once, and from which size on
a block is mapped by itself"""


def device() -> torch.device:
    """The GPU if there is one, else the processor."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def set_threads(threads: int, deterministic: bool = True) -> None:
    """Use so many threads (0: as torch chooses) and, if wanted, deterministic kernels: the same number gives the same
    result."""
    _keep_freed_memory()
    if threads:
        torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    use_tf32(False)


def use_tf32(wanted: bool) -> None:
    """Let a GPU round float32 to 10 bits in products, or not: in matrix products and convolutions alike. torch's own
    defaults differ, so that a transformer would be computed more exactly than a convolutional network."""
    torch.backends.cuda.matmul.allow_tf32 = wanted
    torch.backends.cudnn.allow_tf32 = wanted


@cache
def _keep_freed_memory() -> None:
    """Let glibc keep the memory that a layer frees for the next one. By default it returns large blocks to the system
    and gets them back zeroed page by page, which takes up to a third of the time of a small network on a processor."""
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        for parameter, size in ((_MAP, 32 << 20), (_TRIM, 1 << 30), (_PADDING, 64 << 20)):
            mallopt(parameter, size)
