"""Ties: what is equal, and the order of what is."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.ties import below, equal, merge_equal, rank, reached

#: Numbers with near neighbours: few values, each off by up to some 1e-9.
near = st.builds(lambda value, off: value * (1 + off * 4e-10), st.sampled_from(
    [-3.0, -1.0, 0.0, 1e-12, 1.0, 3.0, 1e15, math.inf, -math.inf]), st.integers(-3, 3))


@pytest.mark.parametrize(("a", "b", "same"), [
    (0.1 + 0.2, 0.3, True), (1.0, 1.0 + 0.9e-9, True), (1.0, 1.0 + 1.1e-9, False),
    (-1.0, -1.0 - 0.9e-9, True), (1e-12, 2e-12, False), (0.0, 1e-300, False), (0.0, -0.0, True),
    (math.inf, math.inf, True), (math.inf, 1e308, False), (math.inf, -math.inf, False),
    (Fraction(1), 1 + Fraction(9, 10**10), True), (Fraction(1), 1 + Fraction(11, 10**10), False),
])
def test_what_is_equal(a, b, same):
    """Numbers are equal up to 1e-9 of the smaller one, and an infinity equals itself alone."""
    assert equal(a, b) is equal(b, a) is same
    assert below(a, b) is (a < b and not same)
    assert below(b, a) is (b < a and not same)
    assert (rank([a, b]).tolist() == rank([b, a]).tolist() == [0, 1]) is same


def test_equal_keys_keep_their_places():
    assert rank([3.0, 1.0 + 5e-10, 1.0, 2.0]).tolist() == [1, 2, 3, 0]
    assert rank([]).tolist() == []
    assert rank([7]).tolist() == [0]


def test_a_run_may_be_wider_than_the_tolerance():
    """1, 1 + 0.6e-9 and 1 + 1.2e-9 are one run: each is equal to the next."""
    assert rank([1 + 1.2e-9, 1.0, 1 + 0.6e-9]).tolist() == [0, 1, 2]
    assert rank([1 + 1.2e-9, 1.0]).tolist() == [1, 0]


@given(st.lists(near, max_size=12))
def test_rank_sorts_and_then_restores(keys):
    """The order is that of (run, place), a run being sorted keys that each equal the next one."""
    order = rank(keys).tolist()
    assert sorted(order) == list(range(len(keys)))
    exact = sorted(keys)
    runs = np.cumsum([0, *(not equal(a, b) for a, b in pairwise(exact))])
    run_of = {key: run for key, run in zip(exact, runs.tolist(), strict=False)}
    assert order == sorted(range(len(keys)), key=lambda place: (run_of[keys[place]], place))


@pytest.mark.parametrize(("amount", "slack", "count"), [
    (0.0, 0.0, 0), (0.1 + 0.2, 0.0, 2), (0.3 - 1e-10, 0.0, 2), (0.3 - 1e-9, 0.0, 1),
    (0.3 - 1e-9, 1e-9, 2), (math.inf, 0.0, 3)])
def test_what_is_reached(amount, slack, count):
    """Thresholds are 0.1, 0.3 and 1: within 1e-9 of it, relative, one is reached."""
    assert reached(amount, [0.1, 0.3, 1.0], slack) == count


@given(st.lists(near, max_size=12))
def test_merged_keys_are_in_the_same_order(keys):
    """The order of merged keys is that of `rank`; merging them again changes nothing."""
    merged = merge_equal(keys)
    assert np.argsort(merged, kind="stable").tolist() == rank(keys).tolist()
    assert set(merged.tolist()) <= set(keys)
    assert np.array_equal(merge_equal(merged), merged)
