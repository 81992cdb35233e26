"""Where tensors live."""

import torch


def device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def set_threads(threads: int) -> None:
    """Two threads or twenty must give one result each time: the same number of threads, and deterministic kernels."""
    if threads:
        torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.matmul.allow_tf32 = False
