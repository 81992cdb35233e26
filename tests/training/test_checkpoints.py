"""Checkpoints: how often they are written, the one before the last, and one file for any number of processes."""

import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from damnatio.support import row_files
from damnatio.support.manifests import CHECKPOINTS
from damnatio.support.row_files import HASH, NO_HASH, Rows
from damnatio.training.checkpoints import Schedule
from damnatio.training.loop import METRICS, _Loop
from tests.training.jobs import job


def test_writing_takes_no_more_than_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    schedule = Schedule(seconds=30, share=0.01)

    def due_after(seconds: float) -> bool:
        now[0] += seconds
        return schedule.is_due()

    assert [due_after(29), due_after(1)] == [False, True]
    schedule.took(2.0)  # 2 s of 200 s are one in a hundred: 198 s to wait
    assert [due_after(197), due_after(1)] == [False, True]
    schedule.took(0.1)  # 9.9 s would do, but not more often than every 30 s
    assert [due_after(29), due_after(1)] == [False, True]


@pytest.fixture
def loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[_Loop, _Loop, list[str]]:
    """A training that saved after its first step and after its second, the same one anew, and what it says."""
    before, said = torch.get_default_dtype(), list[str]()
    try:
        loop, again = _Loop(job(), tmp_path), _Loop(job(), tmp_path, said.append)
        loop.begin()
        for step in range(2):
            loop._step(step, loop.batches[step])
            loop._save(step + 1)
    finally:
        torch.set_default_dtype(before)
    (tmp_path / METRICS).write_text('{"step": 1}\n{"step": 2}\n')
    return loop, again, said


def test_the_one_before_a_damaged_checkpoint_is_used_and_that_is_reported(
    loops: tuple[_Loop, _Loop, list[str]],
) -> None:
    loop, again, said = loops
    present, before = loop.checkpoint.paths
    present.write_bytes(present.read_bytes()[:-1000])
    wanted = load_file(before)
    assert again.begin() == 1
    assert said == [
        f"job: the checkpoint {present} is damaged (its content is not what was written): the one before it is used"
    ]
    assert torch.equal(again.job.head.weight, wanted["head.weight"])
    assert (loop.folder / METRICS).read_text() == '{"step": 1}\n', "the second step is taken again"
    again._save(5)
    assert [row_files.check(path)["step"] for path in (present, before)] == ["5", "1"]


def test_a_process_that_died_between_two_renames_goes_on_from_the_one_before(
    loops: tuple[_Loop, _Loop, list[str]],
) -> None:
    loop, again, said = loops
    loop.checkpoint.paths[0].unlink()
    assert again.begin() == 1
    assert said == []


def test_both_damaged_start_anew(loops: tuple[_Loop, _Loop, list[str]]) -> None:
    loop, again, said = loops
    for path in loop.checkpoint.paths:
        path.write_bytes(b"nothing")
    assert again.begin() == 0
    assert [line.rpartition(": ")[2] for line in said] == ["the one before it is used", "the training starts anew"]
    assert not any((loop.folder / name).exists() for name in (*CHECKPOINTS, METRICS))


def test_a_row_file_is_a_safetensors_file_and_knows_its_content(tmp_path: Path) -> None:
    torch.manual_seed(0)
    tensors = {
        "a": torch.randn(3, 5),
        "b": torch.arange(4),
        "c": torch.tensor(2.5, dtype=torch.float64),
        "d": torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last).bfloat16(),
        "e": torch.tensor([1, 2, 3], dtype=torch.uint8),
        "f": torch.zeros(0, 7),
        "g": torch.tensor([True, False]),
    }
    path = tmp_path / "file"
    row_files.write({name: Rows(t) for name, t in tensors.items()}, path, {"step": "7", HASH: NO_HASH})
    read = load_file(path)
    assert read.keys() == tensors.keys()
    assert all(torch.equal(read[name], tensors[name]) and read[name].dtype == tensors[name].dtype for name in tensors)
    assert row_files.check(path) == {"step": "7"}
    assert row_files.shapes(path)["d"] == (2, 3, 4, 4)
    assert torch.equal(row_files.read(path, {"a": slice(1, 3)})["a"], tensors["a"][1:3])
    content = path.read_bytes()
    for place in (9, 40, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ValueError, match=r"it has no readable beginning|its content is not what was written"):
            row_files.check(path)
