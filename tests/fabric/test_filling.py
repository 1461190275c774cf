"""Links that freeze one after the other: from a heap, and in an order that is tried first."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from netsim.fabric.kernels import compiled
from netsim.fabric.kernels.blocks import _freeze as freeze
from netsim.fabric.kernels.blocks import _lay_out, fill_paths
from netsim.fabric.kernels.filling import ROUNDED, heap_of
from tests.examples import examples
from tests.twins import kernels as reference

LINKS = 7


@compiled
def freeze_by(path, weights, capacity, order, grows):
    """Freeze links, by a heap if there is no order; return what `freeze` does, and its filling."""
    filling = _lay_out(path, weights, capacity)
    late = np.empty(len(capacity), np.int64)
    if len(order):
        found = freeze(order, capacity[:0], grows, filling, late)
    else:
        growing = np.flatnonzero(filling.unfrozen[:-1] > 0.0)
        heap, levels = heap_of(growing, filling.unfrozen, filling.left)
        found = freeze(heap, levels, grows, filling, late)
    return found, filling.full_at, filling.unfrozen, filling.left


@st.composite
def problems(draw):
    """Return paths, filled up with the number of links, weights and capacities."""
    longest = draw(st.sampled_from([1, 2, 2, 4]))
    paths = draw(st.lists(st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=longest,
                                   unique=True), min_size=1, max_size=12))
    weights = draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=len(paths),
                            max_size=len(paths)))
    capacity = draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 7.0]), min_size=LINKS,
                             max_size=LINKS))
    path = np.full((len(paths), longest), LINKS, np.uint32)
    for row, links in zip(path, paths, strict=True):
        row[:len(links)] = links
    return paths, path, np.array(weights), np.array(capacity)


def fair_rates(paths, weights, capacity):
    ptr = np.cumsum([0, *map(len, paths)])
    links = np.array([link for path in paths for link in path])
    none = np.zeros(len(paths))
    return reference.maxmin(reference.Problem(none, none.astype(np.int64), ptr, links, capacity),
                            weights)


def rates_at(path, weights, levels):
    return weights * levels[path].min(axis=1)


@settings(deadline=None, max_examples=examples(150))
@given(problems(), st.booleans(), st.data())
def test_links_freeze(problem, known, data):
    """By a heap rates are right; by an order, if no link came too late and none is overloaded."""
    paths, path, weights, capacity = problem
    expected = fair_rates(paths, weights, capacity)
    grows = weights.sum() if known else np.inf
    none = np.empty(0, np.int64)
    (speed, highest, left, late), levels, _, _ = freeze_by(path, weights, capacity, none, grows)
    assert_allclose(rates_at(path, weights, levels), expected, rtol=1e-12, atol=1e-12)
    # A link counts the flows that freeze at it, each once.
    assert_allclose(speed, expected.sum(), rtol=1e-12, atol=1e-12)
    assert_allclose(highest, (expected / weights).max(), rtol=1e-12)
    assert late == 0
    assert left == (0.0 if known else np.inf)

    right = np.argsort(levels[:-1], kind="stable")
    (_, _, _, late), again, _, _ = freeze_by(path, weights, capacity, right.copy(), grows)
    assert late == 0
    assert_allclose(rates_at(path, weights, again), expected, rtol=1e-12, atol=1e-12)

    order = np.array(data.draw(st.permutations(range(LINKS))))
    (_, _, _, late), guessed, unfrozen, rest = freeze_by(path, weights, capacity, order, grows)
    full = guessed[:-1] < np.inf
    fits = np.all(full | ((rest[:-1] >= -ROUNDED * capacity) & (unfrozen[:-1] <= 0.0)))
    if late == 0 and fits:
        assert_allclose(rates_at(path, weights, guessed), expected, rtol=1e-9, atol=1e-9)


def test_a_flow_of_three_links_is_taken_off_each_once():
    """A flow on all links, two more on link 1, three more on link 2.

    Link 0 is full at 1; link 1 at (5 - 1) / 2 = 2; and link 2 at (10 - 1) / 3 = 3, of which the
    first flow has 1, not also the 2 that it would have on link 1.
    """
    path = np.array([[0, 1, 2]] + [[1, 3, 3]] * 2 + [[2, 3, 3]] * 3, np.uint32)
    rates = fill_paths(path, np.ones(6), np.array([1.0, 5.0, 10.0]))
    assert rates.tolist() == [1, 2, 2, 3, 3, 3]


def test_an_order_that_is_wrong_is_seen():
    """A flow on each of links 0 to 5 and one on 5 and 6; links carry 8, but link 6 carries 1.

    Of the next four in the order the lowest comes first: 5, at which two flows get 4 each. One of
    them crosses link 6, which would be full at 1. Without other flows, that is overloaded at the
    end; with one more, it comes too late, as a flow of it is faster than its level.
    """
    path = np.array([[0, 7], [1, 7], [2, 7], [3, 7], [4, 7], [5, 7], [5, 6], [6, 7]], np.uint32)
    capacity = np.array([8.0] * 6 + [1.0])
    for flows, is_late, expected in (7, 0, [8] * 5 + [7, 1]), (8, 1, [8] * 5 + [7.5, 0.5]):
        given = path[:flows], np.ones(flows), capacity
        (*_, late), levels, _, rest = freeze_by(*given, np.array([0, 1, 5, 2, 3, 4, 6]), np.inf)
        assert levels[5] == 4
        assert (late, rest[6]) == (is_late, -3)
        (*_, late), levels, _, _ = freeze_by(*given, np.array([6, 5, 0, 1, 2, 3, 4]), np.inf)
        assert late == 0
        assert levels[:-1].tolist() == expected
