"""The answer on a terminal."""

import json
from pathlib import Path

from damnatio.reporting.answers import MARKS, QUESTIONS, SIGNS
from damnatio.reporting.page.telling import told
from tests.reporting.page.contents import a_content, a_panel

COUNTS = {"TMR T": (1000, [940, 950])}


def test_sentences_of_the_recommended_and_the_marks_of_the_others() -> None:
    content = a_content([a_panel("S1", {"original": COUNTS, "HD": COUNTS, "GS": COUNTS})], "demo")
    content["panels"][0]["models"]["GS"]["answers"][1][2][0] = 2
    lines = told(content, 100)
    assert lines[0] == "demo, S1: at a false match rate of 0.01, 1 in 100"
    assert lines[1] == "  HD meets all."
    assert lines[2] == "  HD, hard dispersion:"
    assert "  others: a map behind it      people  used    new     avg.    others  normal  gallery file" in lines
    assert [line for line in lines if line.startswith("    ")] == [
        f"    {SIGNS[MARKS[0]]} {MARKS[0]}: Text {q}." for q in range(len(QUESTIONS))
    ]
    assert lines[-1].split() == ["GS,", "gate", "and", "scatter", "✓", "✓", "✗", "✓", "✓", "✓", "✓", "✓"]


def test_one_method_has_no_table_and_none_a_sentence() -> None:
    lines = told(a_content([a_panel("S1", {"original": COUNTS, "HD": COUNTS})]), 100)
    assert not [line for line in lines if "others:" in line]
    alone = told(a_content([a_panel("S1", {"original": COUNTS})]), 100)
    assert len(alone) == 2
    assert "No method was evaluated" in alone[1]


def test_no_line_is_wider_than_the_terminal(page: Path) -> None:
    content = json.loads((page.parent / "page.json").read_text())
    for width in (60, 80, 120):
        lines = told(content, width)
        titles = [line for line in lines if not line.startswith(" ")]
        assert len(titles) == len(content["panels"])
        assert max(len(line) for line in lines if line.startswith("    ")) <= width
    text = " ".join(" ".join(told(content, 100)).split())
    panel = content["panels"][0]
    chosen, why = panel["recommended"][panel["first"]]
    for _, sentence in panel["models"][chosen]["answers"][panel["first"]]:
        assert " ".join(sentence.split()) in text
    assert " ".join(why.split()) in text
