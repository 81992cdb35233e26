"""Hints for misspelt names."""

import pytest

from damnatio.support.errors import nearest


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("iresnet43", ["iresnet34", "vit-s"], " Did you mean 'iresnet34'?"),
        ("xyz", ["vit-s", "iresnet34"], " Known: iresnet34, vit-s."),
        ("xyz", [], ""),
    ],
)
def test_hint_names_the_most_similar_or_all_or_nothing(word: str, known: list[str], hint: str) -> None:
    assert nearest(word, known) == hint
