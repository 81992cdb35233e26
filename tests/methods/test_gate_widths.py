"""Prototypes, widths, wrong labels and look-alikes, on people made by hand."""

import math
from itertools import permutations

import numpy as np
import pytest

from damnatio.methods.gate_widths import (
    ABOVE,
    Photographs,
    WidthSettings,
    choose,
    held_out,
    of_one_person,
    prototypes,
)
from damnatio.methods.strangers import COSINE, Strangers, Units, mean_direction, statistics_of
from damnatio.models.statistics import Statistics, Tail

DIM = 64
SETTINGS = WidthSettings()


def turned(direction: Units, cosine: float, count: int, rng: np.random.Generator) -> Units:
    """Unit vectors at this cosine from a direction."""
    aside = rng.normal(size=(count, len(direction)))
    aside -= np.outer(aside @ direction, direction)
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    return np.asarray(cosine * direction + math.sqrt(1 - cosine**2) * aside)


def axis(place: int) -> Units:
    return np.asarray(np.eye(DIM)[place])


def person(name: str, place: int, count: int, cosine: float = 0.8, seed: int = 0) -> Photographs:
    units = turned(axis(place), cosine, count, np.random.default_rng([seed, place]))
    return Photographs(name, units, [f"{name}/{i}.jpg" for i in range(count)])


def strangers(count: int = 200, seed: int = 5) -> Strangers:
    rng = np.random.default_rng(seed)
    units = rng.normal(size=(count, DIM))
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    return Strangers(units, np.arange(count), [f"s{i}" for i in range(count)])


def with_person(others: Strangers, name: str, units: Units) -> Strangers:
    codes = np.full(len(units), len(others.names))
    return Strangers(
        np.concatenate([others.units, units]), np.concatenate([others.codes, codes]), [*others.names, name]
    )


def test_without_strangers_the_width_follows_from_the_statistics_and_the_number_of_people() -> None:
    """t = mean + deviation z(bound / K), by hand."""
    tail = Tail(share=0.01, at=2.5, scale=0.5)
    statistics = COSINE.model_copy(update={"nonmated_mean": 0.0, "nonmated_deviation": 0.1, "tail": tail})
    for count in (1, 4):
        chosen = choose([person(f"p{i}", i, 5) for i in range(count)], None, statistics, SETTINGS)
        wanted = 0.1 * (2.5 + 0.5 * math.log(0.01 / (1e-4 / count)))
        assert [each.offset for each in chosen] == pytest.approx([wanted] * count)
    more = choose([person("p", 0, 5)], None, statistics, SETTINGS, others=3)[0]
    assert more.offset == pytest.approx(wanted)


def test_a_wider_bound_makes_wider_cones() -> None:
    offsets = [
        choose([person("p", 0, 5)], None, COSINE, WidthSettings(strangers=bound))[0].offset
        for bound in (1e-6, 1e-4, 1e-2)
    ]
    assert offsets == sorted(offsets, reverse=True)


def test_all_cones_together_catch_no_more_strangers_than_the_bound_says() -> None:
    """Ten people, and 100,000 strangers that no width was chosen on."""
    known, bound = strangers(2000), 1e-2
    statistics = statistics_of(known, "test")
    chosen = choose([person(f"p{i}", i, 6) for i in range(10)], known, statistics, WidthSettings(strangers=bound))
    new = strangers(100_000, seed=9).units
    caught = np.zeros(len(new), dtype=bool)
    for each in chosen:
        assert each.member is not None
        caught |= (new @ each.member.directions.T.astype(np.float64)).max(axis=1) > each.offset
    assert caught.mean() < bound


def test_held_out_scores_are_those_to_the_mean_of_the_others() -> None:
    units = person("p", 0, 6).units
    for i, score in enumerate(held_out(units, 1)):
        others = np.delete(units, i, axis=0)
        assert score == pytest.approx(float(units[i] @ mean_direction(others)))
    assert len(held_out(units[:1], 1)) == 0


def test_the_expected_share_counts_held_out_photographs_and_the_statistics_as_two_more() -> None:
    one = person("p", 0, 6, cosine=0.9)
    chosen = choose([one], None, COSINE, SETTINGS)[0]
    at = chosen.offset + SETTINGS.ramp
    caught = int((held_out(one.units, 1) >= at).sum())
    assert chosen.caught == pytest.approx((caught + 2 * COSINE.caught(at, 6)) / 8)
    single = choose([person("p", 0, 1)], None, COSINE, SETTINGS)[0]
    assert single.caught == pytest.approx(COSINE.caught(single.offset + SETTINGS.ramp, 1))
    assert single.member is not None
    assert single.member.entry.photographs == 1


def test_one_photograph_is_expected_to_catch_less_than_four() -> None:
    shares = [COSINE.caught(0.5, count) for count in (1, 2, 4, 8, 16)]
    assert shares == sorted(shares)
    assert COSINE.caught(COSINE.mated_mean, 1) == pytest.approx(0.5)


def test_a_strangers_photograph_in_the_folder_is_found_and_left_out() -> None:
    right = person("p", 0, 5)
    wrong = Photographs("p", np.concatenate([right.units, axis(9)[None]]), [*right.images, "p/wrong.jpg"])
    chosen = choose([wrong], None, COSINE, SETTINGS)[0]
    assert chosen.suspects == ["p/wrong.jpg"]
    assert chosen.used == right.images
    assert chosen.member is not None
    alone = choose([right], None, COSINE, SETTINGS)[0]
    assert alone.member is not None
    assert np.array_equal(chosen.member.directions, alone.member.directions)


@pytest.mark.parametrize("places", [(0, 1), (0, 1, 2), (0, 0, 1, 1)])
def test_a_folder_of_several_people_is_refused(places: tuple[int, ...]) -> None:
    units = np.concatenate([turned(axis(p), 0.9, 1, np.random.default_rng(i)) for i, p in enumerate(places)])
    assert of_one_person(units, 0.3) is None
    chosen = choose([Photographs("p", units, [str(i) for i in range(len(places))])], None, COSINE, SETTINGS)[0]
    assert chosen.member is None


def two_faced(count: int, seed: int = 0) -> Photographs:
    """A person in two looks whose photographs are hardly alike across them, joined by a chain of a few between."""
    rng = np.random.default_rng(seed)
    middle = (axis(0) + axis(1)) / math.sqrt(2)
    looks = [turned(axis(0), 0.75, count, rng), turned(axis(1), 0.75, count, rng), turned(middle, 0.95, 3, rng)]
    return Photographs("p", np.concatenate(looks), [str(i) for i in range(2 * count + 3)])


def test_two_prototypes_are_taken_only_where_they_catch_more_held_out_photographs() -> None:
    narrow = COSINE.model_copy(update={"nonmated_deviation": 0.11})
    plain = choose([person("p", 0, 30, cosine=0.9)], None, narrow, SETTINGS)[0]
    twofold = choose([two_faced(20)], None, narrow, SETTINGS)[0]
    assert plain.member is not None
    assert twofold.member is not None
    assert len(plain.member.directions) == 1
    assert len(twofold.member.directions) == 2
    single = choose([two_faced(20)], None, narrow, WidthSettings(prototypes=1))[0]
    assert twofold.caught > single.caught


def test_prototypes_do_not_depend_on_the_order_of_photographs() -> None:
    units = two_faced(6).units
    found = {tuple(np.sort(prototypes(units[list(order)], 2) @ units[0]).round(9)) for order in permutations_of(units)}
    assert len(found) == 1


def permutations_of(units: Units) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.permutation(len(units)).tolist() for _ in range(5)]


def test_a_look_alike_is_named_and_spared_as_far_as_the_own_photographs_allow() -> None:
    own = person("p", 0, 10, cosine=0.9)
    prototype = mean_direction(own.units)
    twin = turned(prototype, 0.6, 4, np.random.default_rng(1))
    known = with_person(strangers(), "twin", twin)
    statistics = COSINE
    chosen = choose([own], known, statistics, SETTINGS)[0]
    (alike,) = [each for each in chosen.alike if each.name == "twin"]
    assert (alike.images, alike.would, alike.caught) == (4, 4, 0)
    assert alike.highest == pytest.approx(0.6, abs=1e-6)
    assert chosen.offset == pytest.approx(0.6 + ABOVE, abs=1e-6)
    assert chosen.caught <= chosen.unspared
    nearer = with_person(strangers(), "twin", turned(prototype, 0.8, 4, np.random.default_rng(1)))
    stuck = choose([own], nearer, statistics, SETTINGS)[0]
    assert stuck.caught >= stuck.unspared - SETTINGS.spare - 1e-9
    assert stuck.alike[0].caught == 4, "to spare them would lose the person"
    free = choose([own], nearer, statistics, WidthSettings(spare=1.0))[0]
    assert free.alike[0].caught == 0


def test_the_same_person_among_those_to_retain_is_named_and_not_spared() -> None:
    own = person("p", 0, 10, cosine=0.9)
    again = with_person(strangers(), "alias", turned(axis(0), 0.9, 5, np.random.default_rng(3)))
    chosen = choose([own], again, COSINE, SETTINGS)[0]
    assert chosen.same == ["alias"]
    assert all(each.name != "alias" for each in chosen.alike)
    assert chosen.offset == pytest.approx(choose([own], strangers(), COSINE, SETTINGS)[0].offset, abs=0.05), "not 0.9"


def test_the_order_of_people_changes_nothing() -> None:
    people = [person(f"p{i}", i, 5) for i in range(3)]
    known = strangers()
    found = [
        {each.name: (each.offset, each.caught) for each in choose(list(order), known, COSINE, SETTINGS)}
        for order in permutations(people)
    ]
    assert all(each == found[0] for each in found)


def test_a_prototype_whose_strangers_are_near_gets_a_narrower_cone() -> None:
    """A tenth of the strangers resemble the person, as people of the same age, sex and origin do."""
    rng = np.random.default_rng(0)
    near = [turned(axis(0), 0.35, 1, rng) for _ in range(20)]
    crowd = strangers()
    for number, units in enumerate(near):
        crowd = with_person(crowd, f"near{number}", units)
    statistics = statistics_of(strangers(), "test")
    among, apart = choose([person("a", 0, 5), person("b", 1, 5)], crowd, statistics, WidthSettings(spare=0.0))
    assert among.offset > apart.offset + 0.05


def test_statistics_are_read_back_as_they_were_written() -> None:
    assert Statistics.model_validate_json(COSINE.model_dump_json()) == COSINE
