"""The default tier leaves out cases, but no two values that meet."""

from itertools import combinations, product

import pytest

from tests import pairs as module
from tests.pairs import but, few, in_turn, paired, pairs, smallest, some

AXES = ["abcdefg", range(5), (None, True), ("x",), "pqr"]


@pytest.fixture(params=[False, True], ids=["default", "all"])
def every(request, monkeypatch):
    monkeypatch.setattr(module, "ALL", request.param)
    return request.param


@pytest.mark.parametrize("axes", [AXES, AXES[::-1], AXES[:2], AXES[:1], [], ["", "ab"]])
def test_any_two_values_meet(every, axes):
    found = pairs(*axes)
    assert len(found) == len(set(found))
    assert set(found) <= set(product(*axes))
    for one, other in combinations(range(len(axes)), 2):
        assert {(case[one], case[other]) for case in found} == set(product(axes[one], axes[other]))
    if every:
        assert found == list(product(*axes))


def test_there_are_few_and_always_the_same(monkeypatch):
    """Of 210 cases: 35 are what the two longest axes need."""
    monkeypatch.setattr(module, "ALL", False)
    assert 35 <= len(pairs(*AXES)) <= 40
    assert pairs(*AXES) == pairs(*AXES)
    assert pairs(*AXES) != pairs(*AXES, seed=1)
    assert len(pairs(*[range(3)] * 4)) <= 13


def of(cases):
    """What the default tier runs of parameters, and what it leaves out."""
    return [[each.values for each in cases if bool(each.marks) is marked]
            for marked in (False, True)]


def test_the_rest_of_the_product_is_exhaustive(every):
    kept, rest = of(paired(*AXES))
    assert kept == pairs(*AXES)
    assert sorted([*kept, *rest], key=repr) == sorted(product(*AXES), key=repr)
    assert (rest == []) is every


def test_values_take_turns():
    kept, rest = of(in_turn("ab", range(5), first=1))
    assert kept == [("a", 1), ("a", 3), ("b", 0), ("b", 2), ("b", 4)]
    assert sorted(kept + rest) == list(product("ab", range(5)))
    twice, _ = of(in_turn("abcdef", range(4), rounds=2))
    assert twice == sorted((letter, (k + shift) % 4) for k, letter in enumerate("abcdef")
                           for shift in (0, 2))


def test_some_of_the_values(every):
    assert some("abcdefg", 4, 3) == [*"abcdefg"] if every else ["b", "e"]


def test_few_of_many():
    marked = [pytest.param(8, id="last", marks=pytest.mark.skip)]
    kept, rest = of(few([*range(8), *marked], 3)[:-1])
    assert (kept, rest) == ([(0,), (4,)], [(each,) for each in (1, 2, 3, 5, 6, 7)])
    assert few(marked, 1)[0].id == "last"
    assert of(few(["a", "b"], 1)) == [[("a",)], [("b",)]]
    assert of(few([], 2)) == [[], []]


def test_all_but_those_that_are_named():
    assert of(but("abcd", "b", "d")) == [[("b",), ("d",)], [("a",), ("c",)]]
    assert [[mark.name for mark in each.marks] for each in but("abc", "a", slow="c")] == [
        [], ["exhaustive"], ["exhaustive", "slow"]]
    for wrong in ({"slow": "x"}, {}):
        with pytest.raises(AssertionError, match="x"):
            but("abcd", *([] if wrong else "x"), **wrong)


def test_the_smaller_half_of_each_kind(every, tmp_path):
    for size, name in enumerate(["c.csv", "a.json", "b.csv", "d.csv"]):
        (tmp_path / name).write_bytes(b"x" * size)
    kept = ["c.csv", "a.json", "b.csv", *["d.csv"] * every]
    assert [path.name for path in smallest(tmp_path.iterdir())] == kept
