"""Tuples of arrays that kernels hand to each other as pointers."""

import sys
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from netsim.base.compiling import addressed, compiled, in_place
from netsim.fabric.by_reference import (
    address_of,
    by_reference,
    call_at,
    owned,
    released,
    replace,
    type_of_reference,
    untyped,
)


class Pair(NamedTuple):
    left: Any
    right: Any


def turned_pair():
    class Pair(NamedTuple):
        right: Any
        left: Any

    return Pair


class Nested(NamedTuple):
    pair: Pair
    size: int
    fits: bool
    all: tuple[Any, ...]


def nested():
    left, right = np.arange(3.0), np.arange(4)
    return Nested(Pair(left, right), 7, True, (left, right))


@in_place
def add_up(given):
    """A field that is a tuple by name is a reference, any other is the value."""
    given.pair.left[0] += 1.0
    total = given.pair.left.sum() + given.pair.right.sum() + given.size
    return total + given.all[0][2] if given.fits else total


def test_fields_are_those_of_the_tuple():
    """0 + 1 + 2 + 1, 0 + 1 + 2 + 3, 7 and 2; a reference to a reference is the same one."""
    @in_place
    def enter(given):
        return add_up(by_reference(by_reference(given)))

    given = nested()
    assert enter(given) == 19.0
    assert given.pair.left[0] == 1.0


def test_names_of_fields_tell_types_apart():
    """They are no part of the name that Numba gives to a NamedTuple."""
    @in_place
    def left_of(given):
        return by_reference(given).left[0]

    one, two = np.array([1.0]), np.array([2.0])
    assert left_of(Pair(one, two)) == 1.0
    assert left_of(turned_pair()(one, two)) == 2.0


def test_an_unknown_field_is_an_error():
    @in_place
    def enter(given):
        return by_reference(given).middle

    with pytest.raises(numba.TypingError, match="middle"):
        enter(nested())


def test_references_are_counted_where_a_tuple_is_replaced():
    """Each array is held once by the tuple that Python gets, and no longer by the loop."""
    @compiled
    def rebuild(given, times):
        held = owned(given)
        for k in range(times):
            replace(held, Pair(np.full(3, k), given.right))
        return released(held)

    for times, left in ((0, [5, 5, 5]), (1, [0, 0, 0]), (4, [3, 3, 3])):
        given = Pair(np.full(3, 5), np.arange(4))
        before = [sys.getrefcount(each) for each in given]
        found = rebuild(given, times)
        assert found.left.tolist() == left
        assert found.right.tolist() == [0, 1, 2, 3]
        del found
        assert [sys.getrefcount(each) for each in given] == before


def test_a_kernel_is_called_by_its_address():
    """What it raises arrives at the caller."""
    @addressed
    def share(given, parts):
        if parts == 0:
            raise ValueError("no parts")
        return given.left[0] / parts

    @in_place
    def enter(given, address, parts):
        return call_at(address, (untyped(by_reference(given)), parts))

    given = Pair(np.array([6.0]), np.arange(2))
    address = address_of(share, type_of_reference(given), numba.int64)
    assert enter(given, address, 3) == 2.0
    with pytest.raises(ValueError, match="no parts"):
        enter(given, address, 0)
