"""The history of the benchmarks: one line of JSON per run, in results/benchmarks/<name>.jsonl."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]


def append(name: str, ratios: Mapping[str, float], **settings: Any) -> Path:
    """Add the ratios of a run, its settings, its date and its machine."""
    line = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "capability": torch.backends.cpu.get_cpu_capability(),
        },
        "settings": settings,
        "ratios": {key: float(f"{ratio:.4g}") for key, ratio in ratios.items()},
    }
    file = ROOT / "results" / "benchmarks" / f"{name}.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        lines.write(json.dumps(line) + "\n")
    print(f"\nadded to {file}")
    return file


def _commit() -> str:
    """The commit of the checkout, marked if files differ from it; empty outside a repository."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _processor() -> str:
    """The processor's name, as the system gives it."""
    cpus = Path("/proc/cpuinfo")
    names = [line for line in cpus.read_text().splitlines() if line.startswith("model name")] if cpus.exists() else []
    return names[0].partition(":")[2].strip() if names else platform.processor() or platform.machine()
