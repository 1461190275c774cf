"""Which cases of many the default tier runs; `make test-all` runs all of them."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from tests.examples import ALL

#: What only `make test-all` runs, and the gate as far as it has the time.
exhaustive = pytest.mark.exhaustive


def pairs(*axes: Iterable[Any], seed: int = 0) -> list[tuple[Any, ...]]:
    """Return cases in which any two values of two axes meet; with NETSIM_TESTS=all, the product.

    Most faults need one value, or two that meet: three policies of each of three kinds make 27
    cases, of which 9 have all pairs. Among equally good cases `seed` chooses.
    """
    values = [list(axis) for axis in axes]
    places = list(product(*map(range, map(len, values)))) if ALL else _array(
        [len(axis) for axis in values], random.Random(seed))
    return [tuple(axis[place] for axis, place in zip(values, case, strict=True))
            for case in places]


def _array(sizes: Sequence[int], rng: random.Random) -> list[tuple[int, ...]]:
    """Return the places of the values in each case: one pair that is missing, and the best rest."""
    missing = {two: dict.fromkeys(product(range(sizes[two[0]]), range(sizes[two[1]])))
               for two in combinations(range(len(sizes)), 2)}
    if not missing:
        return list(product(*map(range, sizes)))

    def gain(case: dict[int, int], axis: int, place: int) -> int:
        return sum((case[other], place) in missing[other, axis] if other < axis else
                   (place, case[other]) in missing[axis, other] for other in case)

    cases = []
    while any(missing.values()):
        two = max(missing, key=lambda each: len(missing[each]))
        case = dict(zip(two, next(iter(missing[two])), strict=True))
        for axis in set(range(len(sizes))) - set(two):
            shuffled = rng.sample(range(sizes[axis]), sizes[axis])
            case[axis] = max(shuffled, key=lambda place: gain(case, axis, place))
        for one, other in missing:
            missing[one, other].pop((case[one], case[other]), None)
        cases.append(tuple(case[axis] for axis in range(len(sizes))))
    return sorted(cases)


def paired(*axes: Iterable[Any], seed: int = 0) -> list[Any]:
    """Return the product as parameters, of which those outside the array are exhaustive."""
    values = [list(axis) for axis in axes]
    return _marked(values, pairs(*(range(len(axis)) for axis in values), seed=seed))


def in_turn(*axes: Iterable[Any], first: int = 0, rounds: int = 1) -> list[Any]:
    """Return the product as parameters, of which each value of the longest axis has one by default.

    Those of the others take turns, from number `first` on: for where all pairs take too long.
    With several `rounds` each value has as many, with others apart from each other.
    """
    values = [list(axis) for axis in axes]
    longest = max(map(len, values))
    return _marked(values, [tuple(
        turn if len(axis) == longest else (turn + first + again * len(axis) // rounds) % len(axis)
        for axis in values) for again in range(rounds) for turn in range(longest)])


def some(values: Iterable[Any], number: int, of: int) -> list[Any]:
    """Return every value with NETSIM_TESTS=all; else one of `of`, for each `number` another."""
    return list(values) if ALL else list(values)[number % of::of]


def smallest(files: Iterable[Path]) -> list[Path]:
    """Return all files with NETSIM_TESTS=all; else, of each kind, the smaller half."""
    found = sorted(files, key=lambda path: path.stat().st_size)
    kinds = Counter(path.suffix for path in found)
    return [path for place, path in enumerate(found) if ALL or 2 * sum(
        other.suffix == path.suffix for other in found[:place]) < kinds[path.suffix]]


def _marked(values: list[list[Any]], kept: Iterable[tuple[int, ...]]) -> list[Any]:
    chosen = set(kept)
    return [pytest.param(*(axis[place] for axis, place in zip(values, case, strict=True)),
                         marks=() if case in chosen else exhaustive)
            for case in product(*(range(len(axis)) for axis in values))]


def few(cases: Iterable[Any], number: int) -> list[Any]:
    """Return parameters of which all but `number`, from the first to the last, are exhaustive."""
    given = [case if isinstance(case, type(pytest.param())) else
             pytest.param(*(case if isinstance(case, tuple) else (case,))) for case in cases]
    kept = {round(k * (len(given) - 1) / max(number - 1, 1)) for k in range(number)}
    return [case if place in kept else
            pytest.param(*case.values, id=case.id, marks=[*case.marks, exhaustive])
            for place, case in enumerate(given)]


def but(cases: Iterable[Any], *kept: Any, slow: Iterable[Any] = ()) -> list[Any]:
    """Return parameters of which all but those that are named are exhaustive, and some slow."""
    cases = list(cases)
    slow = list(slow)
    missing = [case for case in (*kept, *slow) if case not in cases]
    assert not missing, missing
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[
        mark for mark, named in ((exhaustive, case not in kept), (pytest.mark.slow, case in slow))
        if named]) for case in cases]


def never_in_the_gate(cases: Iterable[Any]) -> list[Any]:
    """Return parameters that only `make test-all` runs: exhaustive, and slow."""
    return [pytest.param(case, marks=[exhaustive, pytest.mark.slow]) for case in cases]
