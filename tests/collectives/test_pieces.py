"""Every collective does what it is for: followed piece by piece, whatever the options."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.collectives import ALGORITHMS, schedule, waits
from netsim.collectives.schedules import ring_orders

PAIRS = [(collective, algorithm) for collective, named in ALGORITHMS.items()
         for algorithm in named]


@st.composite
def schedules(draw):
    collective, algorithm = draw(st.sampled_from(PAIRS))
    ranks = draw(st.integers(1, 12))
    takes, options = ALGORITHMS[collective][algorithm].options, {}
    if "chunks" in takes:
        options["chunks"] = draw(st.integers(1, 4))
    if "root" in takes:
        options["root"] = draw(st.integers(0, ranks - 1))
    if "group" in takes:
        options["group"] = draw(divisors(ranks))
    if "rings" in takes:
        options["rings"] = draw(divisors(options["group"]))
        if options["rings"] == 1:
            del options["group"]
    if "inner" in takes:
        options |= {name: draw(st.sampled_from(["ring", "direct"])) for name in ("inner", "outer")}
        options["overlap"] = draw(st.booleans())
    if "pairs" in takes and ranks > 1 and draw(st.booleans()):
        at = st.integers(0, ranks - 1)
        options["pairs"] = draw(st.lists(st.tuples(at, at).filter(lambda pair: pair[0] != pair[1]),
                                         min_size=1, max_size=6))
    if draw(st.booleans()):
        options["order"] = draw(st.permutations(range(ranks)))
    return schedule(collective, ranks, algorithm, **options), options


def divisors(of):
    return st.sampled_from([each for each in range(1, of + 1) if not of % each])


def parts_of(made, options):
    """Return the pieces that each position begins or ends with, by its place in each ring."""
    rings = options.get("rings", 1)
    parts = {p: [] for p in range(made.ranks)}
    for ring, order in enumerate(ring_orders(made.ranks, rings, options.get("group"))):
        for place, p in enumerate(order.tolist()):
            parts[p].append(ring * made.ranks + place)
    return parts


def sums(ranks):
    """Return what each piece is if all have been added: one contribution of each rank."""
    return Counter(range(ranks))


def begun(made, options):
    """Return what each rank has of each piece at first: how often each rank is added in it."""
    at, pieces = made.at(np.arange(made.ranks)).tolist(), range(made.pieces)
    each = {rank: {} for rank in at}
    if made.collective in ("all-reduce", "reduce-scatter", "reduce"):
        return {rank: {piece: Counter([rank]) for piece in pieces} for rank in at}
    if made.collective == "broadcast":
        each[at[options.get("root", 0)]] = {piece: Counter([-1]) for piece in pieces}
    elif made.collective == "all-to-all":
        for p, rank in enumerate(at):
            each[rank] = {p * made.ranks + q: Counter([rank]) for q in range(made.ranks)}
    elif made.collective == "send-recv":
        for piece, (src, _) in enumerate(pairs_of(made, options)):
            each[at[src]][piece] = Counter([-1])
    else:
        for p, own in parts_of(made, options).items():
            each[at[p]] = {piece: Counter([at[p]]) for piece in own}
    return each


def pairs_of(made, options):
    usual = [(p, (p + 1) % made.ranks) for p in range(made.ranks)] if made.ranks > 1 else []
    return options.get("pairs", usual)


def check_end(made, options, has):
    """Check that each rank has what the collective promises."""
    at, pieces = made.at(np.arange(made.ranks)).tolist(), range(made.pieces)
    every, n = sums(made.ranks), made.ranks
    if made.collective == "all-reduce":
        assert all(has[rank][piece] == every for rank in at for piece in pieces)
    elif made.collective == "reduce":
        assert all(has[at[options.get("root", 0)]][piece] == every for piece in pieces)
    elif made.collective == "reduce-scatter":
        assert all(has[at[p]][piece] == every
                   for p, own in parts_of(made, options).items() for piece in own)
    elif made.collective == "broadcast":
        assert all(has[rank][piece] == Counter([-1]) for rank in at for piece in pieces)
    elif made.collective == "all-to-all":
        assert all(has[at[q]][p * n + q] == Counter([at[p]]) for p in range(n) for q in range(n)
                   if n > 1)
    elif made.collective == "send-recv":
        assert all(has[at[dst]][k] == Counter([-1])
                   for k, (_, dst) in enumerate(pairs_of(made, options)))
    else:  # all-gather and barrier: all have something of everybody
        assert all(has[rank][piece] == Counter([at[p]]) for rank in at
                   for p, own in parts_of(made, options).items() for piece in own)


def follow(made, options, order_of_messages):
    """Let messages arrive one after the other; what they carry is fixed when they are sent.

    `order_of_messages` yields ("send" or "arrive", message).
    """
    messages, has, carried = made.messages(made.sizes(1.0)), begun(made, options), {}
    for what, m in order_of_messages(messages):
        src, dst = int(messages.src[m]), int(messages.dst[m])
        if what == "send":
            assert all(piece in has[src] for piece in messages.pieces[m]), "it lacks what it sends"
            carried[m] = {piece: has[src][piece] for piece in messages.pieces[m]}
            continue
        for piece, of in carried[m].items():
            if messages.adds[m]:
                has[dst][piece] = has[dst][piece] + of
                assert max(has[dst][piece].values()) == 1, "something is added twice"
            else:
                has[dst][piece] = of
    check_end(made, options, has)


@given(schedules())
def test_in_steps(drawn):
    """In each step all is sent, and then all arrives."""
    follow_in_steps(*drawn)


@pytest.mark.parametrize("ranks", [3, 6, 7])
def test_ranks_beyond_a_power_of_two_are_folded(ranks):
    """The fold is added to what its neighbour has, and comes back as the sum."""
    follow_in_steps(schedule("all-reduce", ranks, "halving-doubling"), {})


def follow_in_steps(made, options):
    def in_steps(messages):
        for step in range(made.steps):
            now = np.flatnonzero(messages.step == step)
            yield from (("send", m) for m in now)
            yield from (("arrive", m) for m in now)

    follow(made, options, in_steps)


@given(schedules(), st.data())
def test_in_any_order_that_the_waits_allow(drawn, data):
    """Each message is sent when those have arrived that it waits for, and arrives later."""
    made, options = drawn
    seed = data.draw(st.integers(0, 2**32))

    def as_soon_as_may_be(messages):
        rng = np.random.default_rng(seed)
        left = [set(each) for each in waits(messages, made.in_turn)]
        unsent, flying = set(range(len(left))), set()
        while unsent or flying:
            ready = [("send", m) for m in sorted(unsent) if not left[m]]
            ready += [("arrive", m) for m in sorted(flying)]
            what, m = ready[rng.integers(len(ready))]
            yield what, m
            if what == "send":
                unsent.remove(m)
                flying.add(m)
            else:
                flying.remove(m)
                for each in left:
                    each.discard(m)

    follow(made, options, as_soon_as_may_be)


@given(schedules())
def test_phases_send_what_their_steps_send(drawn):
    """Over each edge, with equal pieces and with pieces of whole units."""
    made, _ = drawn
    nbytes = 3.0 * 7 * made.pieces
    for unit in (None, 3.0):
        sizes = made.sizes(nbytes, unit)
        messages = made.messages(sizes)
        bounds = [*made.phases, made.steps]
        for phase, edges in enumerate(made.edges):
            inside = (messages.step >= bounds[phase]) & (messages.step < bounds[phase + 1])
            sent = Counter()
            for src, dst, size in zip(messages.src[inside].tolist(), messages.dst[inside].tolist(),
                                      messages.nbytes[inside].tolist(), strict=True):
                sent[src, dst] += size
            found = made.phase_bytes(phase, sizes).tolist()
            assert dict(zip(zip(edges.src.tolist(), edges.dst.tolist(), strict=True), found,
                            strict=True)) == pytest.approx(dict(sent))
            assert sum(times for _, times in edges.steps) == bounds[phase + 1] - bounds[phase]


@given(schedules(), st.integers(0, 50))
def test_whole_units_add_up(drawn, units):
    """No byte is lost, and no part has more than one element more than another."""
    made, _ = drawn
    sizes = made.sizes(8.0 * units, unit=8.0)
    if sizes.listed is None:  # a barrier
        assert made.collective == "barrier"
        return
    assert sizes.listed.sum() == 8.0 * units * made.copies
    assert not (sizes.listed % 8).any()
    assert np.ptp(sizes.listed) <= 8.0 * len(made.cuts)
