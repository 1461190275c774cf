"""Rows of coflows as kernels make them, and what flows that were not followed have sent."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from netsim.fabric.kernels.binding import bind
from netsim.fabric.kernels.graphs import arrive
from netsim.fabric.kernels.lazy import sum_of_minima
from netsim.fabric.kernels.priority_progress import subtract
from netsim.fabric.records import COFLOW, FLOW, HOP, LOAD
from tests.examples import examples
from tests.twins import fabric as reference

SETTINGS = settings(deadline=None, max_examples=examples(150))
LINKS = 6
BYTES = st.sampled_from([0.0, 1e-101, 1e-100, 0.1, 1.0, 3.0, 1e9])
SECONDS = st.sampled_from([0.0, 0.0, 0.001, 0.25, 3.0])

#: A flow: its bytes, those without headers, its path, and the latency of that.
FLOWS = st.tuples(BYTES, BYTES, st.lists(st.integers(0, LINKS - 1), max_size=4), SECONDS)


def check_rows(found, expected, kind):
    """Check all columns; those that the twin does not name are zero."""
    assert len(found) == len(expected)
    for name in kind.names:
        column = [row.get(name, 0) for row in expected]
        assert_allclose(found[name], column, rtol=1e-15, err_msg=name)


@SETTINGS
@given(st.lists(st.lists(FLOWS, max_size=6), min_size=1, max_size=4),
       st.lists(st.sampled_from([0.0, 1.0, 8.0]), min_size=LINKS, max_size=LINKS), st.booleans())
def test_rows_of_coflows(coflows, capacity, plain):
    """Flows without bytes or links, links crossed twice, and links without capacity."""
    flows = [flow for coflow in coflows for flow in coflow]
    src, dst = np.arange(len(flows)), 3 + 2 * np.arange(len(flows))
    nbytes, payload, latency = (np.array([flow[k] for flow in flows], np.float64)
                                for k in (0, 1, 3))
    paths = [flow[2] for flow in flows]
    ptr = np.cumsum([0, *map(len, paths)])
    links = np.array([link for path in paths for link in path], np.int64)
    stops = np.cumsum([*map(len, coflows)])
    more = [] if plain else [payload, latency]  # else there are no headers and no latencies
    found = bind(src, dst, nbytes, ptr, links, np.array(capacity), stops, *more)
    expected = reference.bind(src.tolist(), dst.tolist(), nbytes.tolist(), paths, capacity,
                              stops.tolist(), *(values.tolist() for values in more or [
                                  nbytes, np.zeros(len(flows))]))
    for rows, others, kind in zip(found, expected, (COFLOW, FLOW, HOP, LOAD), strict=True):
        check_rows(rows, others, kind)


@SETTINGS
@given(st.lists(st.tuples(st.sampled_from([-math.inf, 0.0, 9.5]), st.booleans(), st.lists(
    st.tuples(st.floats(0, 9), SECONDS), min_size=1, max_size=4)), min_size=1, max_size=3))
def test_last_bytes_arrive(coflows):
    """Flows that ended one by one, and flows in step, whose bytes are counted by their coflow."""
    rows = np.zeros(len(coflows), COFLOW)
    flows = np.zeros(sum(len(ended) for _, _, ended in coflows), FLOW)
    expected = []
    first = 0
    for row, (arrives, in_step, ended) in zip(rows, coflows, strict=True):
        last = max(end for end, _ in ended)
        latency = [late for _, late in ended]
        ends = [last if in_step else end for end, _ in ended]
        row["flow"], row["flows"], row["last"] = first, len(ended), last
        row["arrives"], row["reach"] = arrives, max(latency)
        own = flows[first:first + len(ended)]
        own["finish"] = [math.inf if in_step else end for end in ends]
        own["remaining"], own["latency"] = float(in_step), latency
        first += len(ended)
        expected.append(reference.arrival(arrives, last, ends, latency))
    arrive(rows, flows)
    assert rows["arrives"].tolist() == expected


def test_the_flow_that_is_sent_first_may_arrive_last():
    """Sent by 1 s and 2 s, over paths of 3 s and 0.5 s: 4 s and 2.5 s."""
    rows, flows = np.zeros(1, COFLOW), np.zeros(2, FLOW)
    rows["flows"], rows["last"], rows["reach"], rows["arrives"] = 2, 2.0, 3.0, -math.inf
    flows["finish"], flows["latency"] = [1.0, 2.0], [3.0, 0.5]
    arrive(rows, flows)
    assert rows["arrives"].tolist() == [4.0]


@SETTINGS
@given(st.integers(0, 2**32 - 1), st.integers(0, 40))
def test_sum_of_minima(seed, instants):
    rng = np.random.default_rng(seed)
    levels, seconds = rng.uniform(0, 9, (2, instants)), rng.uniform(0, 1, instants)
    assert_allclose(sum_of_minima(*levels, seconds),
                    reference.sent_over([0, 1], levels.tolist(), seconds), rtol=1e-14)


@SETTINGS
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3, 5]), st.integers(0, 40), st.booleans())
def test_what_flows_have_sent_that_were_not_followed(seed, longest, instants, by_slot):
    """At the lowest level on their paths; those that have ended send nothing."""
    rng = np.random.default_rng(seed)
    flows, slots, slot, begin, end = 20, 24, 1, 0, 0
    levels, seconds = rng.uniform(0, 9, (instants, slots)), rng.uniform(0, 1, instants + 3)
    paths = rng.integers(0, slots, (flows, longest))
    if by_slot:
        begin, end = 3, 11
        paths = np.stack([rng.integers(begin, end, flows), np.full(flows, slot)], axis=1)
    floors = np.where(rng.random(flows) < 0.3, -1.0, 1e-9)
    before = np.where(floors < 0, 0.0, rng.uniform(100, 500, flows))
    left = before.copy()
    least = subtract(left, floors, paths.astype(np.uint32), begin, end, slot, levels, seconds,
                     np.full(slots, np.nan))
    sent = [0.0 if floor < 0 else reference.sent_over(path, levels.T.tolist(), seconds[:instants])
            for path, floor in zip(paths.tolist(), floors, strict=True)]
    assert_allclose(left, before - sent, rtol=1e-13)
    assert least == min(left[floors >= 0], default=math.inf)
