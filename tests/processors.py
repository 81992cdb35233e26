"""Run the tests as other processors would compute: with older vector instructions, and on one thread and on two.

usage: python tests/processors.py [--mark "not slow"] [--only default,avx2] [--threads 1,2] [arguments of pytest]

torch, MKL, oneDNN, OpenBLAS and NumPy each choose their code by the processor, and each has a variable that forbids the
newer instructions. Sums then run in another order and functions such as exp round differently, as on another machine.
onnxruntime has no such variable. Prints one line per combination, and the tests that failed.
"""

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Iterable

import numpy as np
import torch

OWN = "own"
"""the processor as it is"""


def processors() -> dict[str, dict[str, str]]:
    """The variables of each kind of processor that this one can stand in for."""
    own: dict[str, dict[str, str]] = {OWN: {}}
    if platform.machine() not in ("x86_64", "AMD64"):
        return own
    found: Iterable[str] = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    old = {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": " ".join(found),
    }
    if torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"):
        return {"default": old, **own}
    avx2 = {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_CBWR": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": " ".join(name for name in found if "512" in name or "V4" in name),
    }
    return {"default": old, "avx2": avx2, **own}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mark", default="not slow", help="which tests, as pytest's -m takes it")
    parser.add_argument("--only", default="default,avx2,own", help="of the processors, separated by commas")
    parser.add_argument("--threads", default="1,2", help="numbers, separated by commas")
    options, words = parser.parse_known_args()
    failed = False
    for name, variables in processors().items():
        if name not in options.only.split(","):
            continue
        for threads in options.threads.split(","):
            workers = max(1, (os.cpu_count() or 1) // int(threads))
            command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--dist", "loadgroup"]
            counts = {"DAMNATIO_TEST_THREADS": threads, "OMP_NUM_THREADS": threads}
            environment = {**os.environ, **variables, **counts}
            done = subprocess.run(
                [*command, "-m", options.mark, *words], env=environment, capture_output=True, text=True, check=False
            )
            lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
            print(f"{name:<8} {threads} thread{'s' if threads != '1' else ' '}  {lines[-1].strip('= ')}", flush=True)
            for line in lines:
                if line.startswith(("FAILED", "ERROR")):
                    print(f"    {line}", flush=True)
            failed |= done.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
