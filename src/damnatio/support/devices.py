"""The device that computes, and how many threads it uses."""

import torch


def device() -> torch.device:
    """The GPU if there is one, else the processor."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def set_threads(threads: int) -> None:
    """Use so many threads (0: as torch chooses) and deterministic kernels: the same number gives the same result."""
    if threads:
        torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = False
