"""Where coflows meet is kept up to date as they come and go, and shares are those of all links."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.fabric.kernels.proportional import (
    add_greedily,
    find_factor,
    new_shared_links,
    update,
)
from netsim.fabric.records import COFLOW, DUST, LOAD
from tests.examples import examples

LINKS = 6


@st.composite
def histories(draw):
    """Return capacities, loads, rows of all coflows, and which of these are active, step by step.

    Later ones come later, as in a table.
    """
    capacity = np.array(draw(st.lists(st.sampled_from([1.0, 3.0, 7.0]), min_size=LINKS,
                                      max_size=LINKS)))
    crossed = draw(st.lists(st.sets(st.integers(0, LINKS - 1), min_size=1), min_size=1,
                            max_size=8))
    loads = np.zeros(sum(map(len, crossed)), LOAD)
    rows = np.zeros(len(crossed), COFLOW)
    first = 0
    for c, links in enumerate(crossed):
        own = loads[first:first + len(links)]
        own["link"] = sorted(links)
        own["nbytes"] = [draw(st.sampled_from([0.1, 0.1, 0.7, 2.0])) for _ in links]
        rows[c]["key"], rows[c]["load"], rows[c]["loads"] = 3 * c + 1, first, len(links)
        rows[c]["gamma"] = (own["nbytes"] / capacity[own["link"]]).max()
        first += len(links)
    spans = [sorted(draw(st.tuples(st.integers(c, 9), st.integers(c, 9))))
             for c in range(len(rows))]
    starts = np.maximum.accumulate([start for start, _ in spans])
    stops = np.array([stop for _, stop in spans])
    return capacity, loads, rows, [np.flatnonzero((starts <= step) & (step < stops))
                                   for step in range(10)]


def left_by(coflows, loads, shares, capacity):
    """Take what coflows send off all links, one after the other."""
    left = capacity.copy()
    for row, share in zip(coflows, shares, strict=True):
        for load in loads[row["load"]:row["load"] + row["loads"]]:
            left[load["link"]] -= share / row["gamma"] * load["nbytes"]
    return left


def served(coflows, loads, order, base, capacity):
    """Serve coflows in order with all that their links have left."""
    left, shares = left_by(coflows, loads, base, capacity), base.copy()
    for c in order:
        own = loads[coflows[c]["load"]:][:coflows[c]["loads"]]
        speed = 1.0 / coflows[c]["gamma"]
        x = min(1.0, (left[own["link"]] / (speed * own["nbytes"])).min())
        if x >= DUST:
            shares[c] += x
            left[own["link"]] -= x * speed * own["nbytes"]
    return shares


@settings(max_examples=examples(60))
@given(histories(), st.randoms(use_true_random=False))
def test_shares_are_those_of_all_links(history, random):
    """Whoever came and went before, to the last bit, on shared and on own links."""
    capacity, loads, rows, steps = history
    shared = new_shared_links(len(rows), len(loads), LINKS)
    for active in steps:
        coflows = rows[active]
        update(shared, coflows, loads, capacity)
        place = np.array(random.sample(range(len(active)), len(active)), np.int64)
        shares = np.array([random.random() for _ in active])
        left = left_by(coflows, loads, shares, capacity)
        used = capacity - left
        loaded = used > DUST * capacity
        factor = find_factor(shared, shares, np.zeros(len(active)))
        assert factor == np.min((capacity / np.where(loaded, used, 1.0))[loaded], initial=np.inf)
        base = shares * min(factor, 0.4)
        limit, found = np.ones(len(active)), base.copy()
        assert add_greedily(shared, place, limit, found)
        assert found.tolist() == served(coflows, loads, place, base, capacity).tolist()


def test_what_does_not_fit_is_found():
    """A coflow with all of a link twice over, which it has to itself or shares."""
    loads = np.zeros(2, LOAD)
    loads["nbytes"] = 1.0
    rows = np.zeros(2, COFLOW)
    rows["key"], rows["load"], rows["loads"], rows["gamma"] = [1, 2], [0, 1], 1, 1.0
    for count in (1, 2):
        shared = new_shared_links(2, 2, 1)
        update(shared, rows[:count], loads, np.ones(1))
        none, one, two = np.zeros(count), np.ones(count) / count, np.full(count, 2.0 / count)
        order = np.arange(count)
        assert add_greedily(shared, order, none, one)
        assert not add_greedily(shared, order, none, two)
