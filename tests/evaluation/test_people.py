"""Single people, against loops over all pairs of their images."""

import pytest

from damnatio.evaluation import people
from damnatio.evaluation.people import links_of, people_of
from damnatio.evaluation.protocol import AVERAGED, FORGET_GROUPS, Comparisons
from damnatio.evaluation.sets import Named
from tests.evaluation.naive import dot
from tests.evaluation.small_world import compared, partitions, random_units

WITHIN = {"T single": "T single", "Ftr-Ftr": "FtrxFtr", "Fev-Fev": "FevxFev", "B": "B"}
ACROSS = {"R": "R", "T": "T", "Ftr-Fev": "FtrxFev", AVERAGED: AVERAGED}
Pair = tuple[str, str, str, float]
"""who, both images, and the score"""


def listed(first: Named, second: Named, *, within: bool) -> list[Pair]:
    return [
        (str(first.people[i]), str(first.names[i]), str(second.names[j]), dot(first.units[i], second.units[j]))
        for i in range(len(first))
        for j in range(i + 1 if within else 0, len(second))
        if first.people[i] == second.people[j]
    ]


def every_pair(c: Comparisons) -> dict[str, list[Pair]]:
    found = {}
    for group, pairing in {**WITHIN, **ACROSS}.items():
        if pairing in c.pairings:
            met = c.pairings[pairing]
            found[group] = listed(met.first, met.second, within=group in WITHIN)
    return found


@pytest.fixture(scope="module", params=["S1", "S2"])
def world(request: pytest.FixtureRequest) -> Comparisons:
    table = partitions()
    return compared(table, *random_units(table, 1), request.param)


def test_every_identity_of_every_group(world: Comparisons) -> None:
    naive = every_pair(world)
    found = {(person.group, person.identity): person for person in people_of(world)}
    assert set(found) == {(group, pair[0]) for group, pairs in naive.items() for pair in pairs}
    assert set(naive) == set(world.mated)
    for (group, name), person in found.items():
        mine = [pair for pair in naive[group] if pair[0] == name]
        scores = [score for *_, score in mine]
        assert person.count == len(mine)
        assert person.mean == pytest.approx(sum(scores) / len(scores), abs=1e-12)
        assert (person.lowest, person.highest) == pytest.approx((min(scores), max(scores)), abs=1e-12)
        best = max(mine, key=lambda pair: pair[3])
        assert {person.first, person.second} == {best[1], best[2]}


def test_links_are_the_highest_pairs_of_each_forget_group(world: Comparisons, monkeypatch: pytest.MonkeyPatch) -> None:
    naive = every_pair(world)
    monkeypatch.setattr(people, "LISTED", 7)
    links = list(links_of(world))
    assert [link.group for link in links] == [g for g in FORGET_GROUPS for _ in range(min(7, len(naive[g])))]
    for group in FORGET_GROUPS:
        best = sorted(naive[group], key=lambda pair: -pair[3])[:7]
        mine = [(link.identity, {link.first, link.second}, link.score) for link in links if link.group == group]
        assert [(who, names) for who, names, _ in mine] == [(who, {a, b}) for who, a, b, _ in best]
        assert [score for *_, score in mine] == pytest.approx([score for *_, score in best], abs=1e-12)


def test_template_has_the_name_of_its_identity(world: Comparisons) -> None:
    averaged = [link for link in links_of(world) if link.group == AVERAGED]
    assert averaged
    assert all(link.first == link.identity != link.second for link in averaged)
