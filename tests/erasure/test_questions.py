"""Whoever may be a person to forget is a question to the operator, and the answer changes the gate."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from damnatio import erase
from damnatio.erasure.erase import Erased
from damnatio.erasure.erase import erase as carry_out
from damnatio.erasure.questions import Question
from damnatio.erasure.request import Request
from damnatio.support.errors import DamnatioError
from tests.erasure.cases import embedded
from tests.erasure.world import pattern, photograph, write_model, write_people, write_person

GUEST = "guest_0042"
POOR = 0.3
"""of photographs under which the person is known less well"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "model")


@pytest.fixture
def people(tmp_path: Path) -> Path:
    return write_people(tmp_path / "people", [0])


@pytest.fixture
def gallery(tmp_path: Path, model: Path) -> Path:
    """Strangers, the person, and the person under another name on a photograph that is not so good."""
    images = [photograph(pattern(300 + i), 70_000 + i) for i in range(60)]
    images += [photograph(pattern(0), 80_000), photograph(pattern(0), 80_012, mated=0.5)]
    names = [*(f"member{i}" for i in range(60)), "person000", GUEST]
    np.savez(tmp_path / "gallery.npz", embeddings=embedded(model, images), names=np.array(names))
    return tmp_path / "gallery.npz"


def refused(out: Path, *paths: Path, **words: Any) -> str:
    with pytest.raises(DamnatioError) as caught:
        erase(*paths, out=out, overrides=["threads=1"], **words)
    assert not out.exists()
    assert caught.value.code == 2
    return str(caught.value)


def new_hidden(model: Path, done: Erased) -> float:
    """The share of new photographs of the person that the written model hides."""
    new = [photograph(pattern(0), 6_000 + i, mated=POOR) for i in range(100)]
    before, after = embedded(model, new), embedded(done.files[0], new)
    return float((before != after).any(axis=1).mean())


def test_own_row_under_another_name_is_a_question(tmp_path: Path, model: Path, people: Path, gallery: Path) -> None:
    told = refused(tmp_path / "out", model, people, gallery=gallery)
    assert f"gallery/{GUEST} resembles person000 (score 0." in told
    assert f"--same gallery/{GUEST}" in told
    assert f"--not-same gallery/{GUEST}" in told
    assert "gallery/person000" not in told, "the own name is no question"
    assert "member" not in told


def test_the_answer_changes_the_gate(tmp_path: Path, model: Path, people: Path, gallery: Path) -> None:
    told: list[str] = []

    def answered(out: str, **words: Any) -> Erased:
        return erase(
            model, people, out=tmp_path / out, gallery=gallery, overrides=["threads=1"], say=told.append, **words
        )

    same, other = answered("same", same=[GUEST]), answered("other", not_same=[GUEST])
    assert new_hidden(model, same) > 0.9
    assert new_hidden(model, other) < 0.5
    (line,) = same.people
    assert line.templates == [f"gallery/{GUEST}", "gallery/person000"]
    assert line.alike == []
    record = json.loads((tmp_path / "same/erasure.json").read_text())
    assert record["same"] == {f"gallery/{GUEST}": "person000"}
    assert record["gallery"]["inside"] == 0
    (line,) = other.people
    assert line.templates == ["gallery/person000"]
    assert [(alike.name, alike.would, alike.caught) for alike in line.alike] == [(f"gallery/{GUEST}", 1, 0)]
    assert line.begins is not None
    assert line.unspared is not None
    assert line.begins > line.unspared + 0.1
    words = f"from a score of {line.begins:.3f} on instead of {line.unspared:.3f}, and {line.lost} of the 8 used"
    assert any(words in line for line in told)
    assert json.loads((tmp_path / "other/erasure.json").read_text())["not_same"] == [f"gallery/{GUEST}"]


def test_answers_come_from_files_and_for_all_others(tmp_path: Path, model: Path, people: Path, gallery: Path) -> None:
    (tmp_path / "names.txt").write_text(f"\ufeff{GUEST}\n\n", "utf-8")
    for out, words in {"file": f"@{tmp_path / 'names.txt'}", "rest": "all-others"}.items():
        done = erase(model, people, out=tmp_path / out, gallery=gallery, not_same=[words], overrides=["threads=1"])
        assert done.record.not_same == [f"gallery/{GUEST}"]


def test_answers_that_answer_nothing(tmp_path: Path, model: Path, people: Path, gallery: Path) -> None:
    out = tmp_path / "out"
    told = refused(out, model, people, gallery=gallery, same=["guest_0043"])
    assert told.startswith("--same guest_0043: nobody")
    told = refused(out, model, people, gallery=gallery, same=[GUEST], not_same=[GUEST])
    assert "leave one out" in told
    assert "cannot be read" in refused(out, model, people, gallery=gallery, not_same=[f"@{tmp_path}/none.txt"])
    assert "nobody" in refused(out, model, people, not_same=[GUEST])


@pytest.mark.parametrize(("answer", "kind"), [(True, "same"), (False, "not_same")])
def test_the_operator_is_asked(
    tmp_path: Path, model: Path, people: Path, gallery: Path, answer: bool, kind: str
) -> None:
    asked: list[Question] = []

    def ask(question: Question) -> bool:
        asked.append(question)
        return answer

    request = Request(model, tmp_path / "out", people, galleries=[str(gallery)], overrides=["threads=1"])
    done = carry_out(request, lambda line: None, ask)
    assert [question.name for question in asked] == [f"gallery/{GUEST}"]
    assert f"gallery/{GUEST}" in getattr(done.record, kind)


def test_a_terminal_asks_until_it_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from damnatio.cli.erase import _ask

    question = Question(f"gallery/{GUEST}", "person000", 0.455, 0.366, copy=False)

    def typed(*answers: str) -> Callable[[str], str]:
        left = iter(answers)
        return lambda words: next(left)

    monkeypatch.setattr("builtins.input", typed("perhaps", "Y"))
    assert _ask(question)
    assert "score 0.455, a question from 0.366 on" in capsys.readouterr().out
    monkeypatch.setattr("builtins.input", typed("no"))
    assert not _ask(question)


def retained(root: Path, **more: Any) -> Path:
    retain = write_people(root / "retain", range(100, 155), photographs=3)
    for name, moments in more.items():
        write_person(retain / name, pattern(0), moments)
    return retain


@pytest.mark.parametrize("method", ["GS", "HD"])
def test_the_person_among_those_to_retain(tmp_path: Path, model: Path, people: Path, method: str) -> None:
    retain = retained(tmp_path, somebody=range(4_000, 4_002))
    out = tmp_path / "out"
    told = refused(out, model, people, retain, method=method)
    assert "retain/somebody resembles person000" in told
    assert "take the folder out" in told
    told = refused(out, model, people, retain, method=method, same=["somebody"])
    assert "retain/somebody is person000 (as you said)" in told
    assert "take the folder somebody out of RETAIN" in told


@pytest.mark.parametrize(
    ("name", "moments", "why"),
    [("person000", range(4_000, 4_002), "the folders have one name"), ("else", [3], "a photograph is in both")],
)
def test_who_is_certainly_to_be_kept_and_forgotten(
    tmp_path: Path, model: Path, people: Path, name: str, moments: list[int], why: str
) -> None:
    retain = retained(tmp_path, **{name: moments})
    told = refused(tmp_path / "out", model, people, retain, not_same=["all-others"])
    assert f"retain/{name} is person000 ({why})" in told
    assert f"take the folder {name} out of RETAIN" in told
