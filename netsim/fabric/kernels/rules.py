"""What a policy's compiled rule sees, and what is done to its shares."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import in_place, inlined
from netsim.fabric.kernels.crossings import Crossings, add_greedily, find_factor, take_in
from netsim.fabric.kernels.loop import (
    POLICY,
    REFUSED,
    WAITS,
    loop_of,
    write_nothing,
)
from netsim.fabric.kernels.progress import advance_in_step, apply_shares, refresh
from netsim.fabric.kernels.rule_rows import OTHERS, UNSTRETCHED
from netsim.ties import EQUAL

#: In place of a link: all is well; the rule has written an invalid value, or a field that its form
#: ignores; a policy's order does not name each coflow once; the rule has raised an exception.
SOUND, UNSOUND, UNUSED, NO_ORDER, RAISED = -1, -3, -4, -5, -6

#: The least and the largest positive number.
_LEAST, _MOST = np.nextafter(0.0, 1.0), np.finfo(np.float64).max

#: After this many moves per coflow, sorting by insertion gives up.
_MOVES = 8


class RuleOutput(NamedTuple):
    """What a rule writes, with the initial values of fields in brackets; see `netsim.compiled`."""

    key: NDArray[np.float64]  #: coflows are served by increasing key, then tie (0)
    tie: NDArray[np.float64]
    #: Of LP rates, what a coflow gets first; by place in order, or by coflow if the rule gives
    #: shares (0).
    share: NDArray[np.float64]
    #: Of LP rates, what it may get after that; by place (1 in an order, else 0).
    most: NDArray[np.float64]
    weight: NDArray[np.float64]  #: by coflow (1)
    queue: NDArray[np.int64]  #: by coflow (0)
    limit: NDArray[np.float64]  #: bytes sent at which the rule is called again, by coflow (inf)
    part: NDArray[np.float64]  #: of each link, what a queue gets (0)
    #: The latest time at which the rule is called again, in seconds (inf).
    wake_at: NDArray[np.float64]
    note: NDArray[np.float64]  #: recorded with the decision (NaN)
    options: NDArray[np.float64]


class Reads(NamedTuple):
    """Whether a rule is told the time, and the columns of `COFLOWS` and `JOBS` that it reads.

    It may always read the job of a coflow.
    """

    now: bool
    id: bool
    order: bool
    width: bool
    flow_count: bool
    valid_s: bool
    weight: bool
    deadline_s: bool
    sent: bool
    total: bool
    remaining: bool
    gamma: bool
    nominal_gamma: bool
    longest: bool
    active: bool
    completed: bool
    arrival_s: bool
    attained: bool
    active_gamma: bool
    longest_gamma: bool
    predicted_s: bool
    ahead_s: bool


class Form(NamedTuple):
    """How to interpret the order of a rule."""

    most: float  #: initial value of ``RuleOutput.most``
    by_place: bool  #: whether shares are listed in the order of service
    stretch: int  #: `UNSTRETCHED`, `ALL` or `OTHERS`
    by_job: bool  #: whether ties go by job, rather than by the time at which coflows became valid
    merges: bool  #: whether keys that differ only by rounding errors count as equal
    serves: bool  #: whether coflows are served in order, flow by flow, rather than kept in step
    #: If `serves`, the first pass and how the rest is allocated, as numbered in `priority_state`.
    primary: int
    backfill: int


class Ruled(NamedTuple):
    """A rule at work, and the engine that keeps coflows in step at its shares."""

    rule: Any  #: a `rule_code.CompiledRule`
    asks_python: bool  #: whether a Python policy is asked instead of the rule
    form: Form
    reads: Reads
    coflows: NDArray[Any]  #: of COFLOWS; what the rule reads, with space for more coflows
    jobs: NDArray[Any]  #: of JOBS
    told: NDArray[np.float64]  #: the time that the rule reads, in seconds
    order: RuleOutput  #: what the rule writes, with space for more coflows
    sequence: NDArray[np.int64]  #: coflows in order
    spare: NDArray[np.int64]  #: space to sort them
    seen: NDArray[np.int64]  #: the keys of the coflows at the rule's last decision, row by row
    saw: NDArray[np.int64]  #: how many there were
    room: NDArray[np.float64]  #: scratch space
    crossings: Crossings
    used: NDArray[np.float64]  #: bytes per second on each link
    values: NDArray[np.float64]  #: those of ``order.options`` at each decision
    #: Of an invalid answer, the field of `RuleOutput` and the place in it.
    fault: NDArray[np.int64]
    #: Whether the Python policy has filled in ``order`` for the next decision.
    answered: NDArray[np.int64]
    #: Seconds until the rule must be called again, even if nothing happens.
    wakes_in: NDArray[np.float64]
    check: bool  #: whether to check shares


# --- calling a rule ------------------------------------------------------------------------
@in_place
def ask(ruled, coflows, jobs, now):
    """Call a rule from Python; see `decide`."""
    return decide(ruled, coflows, jobs, now)


@in_place
def decide(ruled, coflows, jobs, now):
    """Call a rule: fill in ``ruled.order``, and sort ``ruled.sequence`` by it.

    Return `SOUND`, `UNSOUND` or `RAISED`.
    """
    count = len(coflows)
    if ruled.reads.now:
        ruled.told[0] = now
    _show(ruled, coflows, jobs)
    full = ruled.order
    fills = RuleOutput(full.key[:count], full.tie[:count], full.share[:count], full.most[:count],
                       full.weight[:count], full.queue[:count], full.limit[:count], full.part,
                       full.wake_at, full.note, full.options)
    _clear(fills, ruled)
    rule = ruled.rule
    if rule(ruled.coflows[:count], ruled.jobs, ruled.told[0], fills):
        return RAISED
    if not _is_sound(fills, now, ruled.fault):
        return UNSOUND
    _recall(ruled, coflows)
    _sort(coflows, fills.key, fills.tie, ruled)
    return SOUND


@inlined
def _recall(ruled, coflows):
    """Start from the last order, which is often nearly right; new coflows come last."""
    seen, spare, sequence = ruled.seen, ruled.spare, ruled.sequence
    before, kept = ruled.saw[0], 0
    for c in range(before):  # then as now, rows are in order of keys
        if kept < len(coflows) and coflows[kept].key == seen[c]:
            spare[c] = kept
            kept += 1
        else:
            spare[c] = -1
    place = 0
    for k in range(before):
        c = spare[sequence[k]]
        if c >= 0:
            sequence[place] = c
            place += 1
    for c in range(len(coflows)):
        if c >= kept:
            sequence[c] = c
        seen[c] = coflows[c].key
    ruled.saw[0] = len(coflows)


@inlined
def _is_sound(order, now, fault):
    """Whether all that a rule has written is valid; otherwise store what is not in `fault`.

    Fields are numbered as in `RuleOutput`.
    """
    fault[0] = -1
    if not order.wake_at[0] > now:
        fault[0], fault[1] = 8, 0
    used = 0.0
    for q in range(len(order.part)):
        used += order.part[q]
        if not (0.0 <= order.part[q] <= 1.0 and used <= 1.0 + 1e-9):
            fault[0], fault[1] = 7, q
    _check_range(order.limit, -np.inf, np.inf, 6, fault)
    _check_range(order.queue, 0, len(order.part) - 1, 5, fault)
    _check_range(order.weight, _LEAST, _MOST, 4, fault)
    _check_range(order.most, 0.0, 1.0, 3, fault)
    _check_range(order.share, 0.0, _MOST, 2, fault)
    _check_range(order.tie, -np.inf, np.inf, 1, fault)
    _check_range(order.key, -np.inf, np.inf, 0, fault)
    return fault[0] == -1


@in_place
def _check_range(values, least, most, field, fault):
    """Store in `fault` the last value that is not from `least` to `most`, if there is one."""
    fits = True
    for c in range(len(values)):
        fits &= least <= values[c] <= most
    if not fits:
        for c in range(len(values)):
            if not least <= values[c] <= most:
                fault[0], fault[1] = field, c


@inlined
def _clear(order, ruled):
    """Reset the fields that a rule may leave unwritten, and the options, which it might change."""
    for k in range(len(ruled.values)):
        order.options[k] = ruled.values[k]
    order.part[:] = 0.0
    order.wake_at[0] = np.inf
    order.note[:] = np.nan
    for c in range(len(order.key)):
        order.key[c] = order.tie[c] = order.share[c] = 0.0
        order.most[c] = ruled.form.most
        order.weight[c] = 1.0
        order.queue[c] = 0
        order.limit[c] = np.inf


@in_place
def _show(ruled, coflows, jobs):
    """Update the columns that the rule reads."""
    reads = ruled.reads
    overlap = False
    for c in range(len(coflows)):
        row, to = coflows[c], ruled.coflows[c]
        to.job = row.job
        if reads.id:
            to.id = row.key
        if reads.order:
            to.order = row.order
        if reads.width:
            to.width = row.open
        if reads.flow_count:
            to.flow_count = row.flows
        if reads.valid_s:
            to.valid_s = row.valid
        if reads.weight:
            to.weight = row.weight
        if reads.deadline_s:
            to.deadline_s = row.deadline
        if reads.sent:
            to.sent = _sent(row)
        if reads.total:
            to.total = row.total
        if reads.remaining:
            to.remaining = row.base * row.left
        if reads.gamma:
            to.gamma = row.gamma * row.left
        if reads.nominal_gamma:
            to.nominal_gamma = row.nominal_gamma
        if reads.longest:
            to.longest = row.longest
        job, its = jobs[row.job], ruled.jobs[row.job]
        if reads.active:
            its.active = job.active
        if reads.completed:
            its.completed = job.completed
        if reads.arrival_s:
            its.arrival_s = job.arrival
        if reads.longest_gamma:
            its.longest_gamma = job.longest
        if reads.predicted_s:
            its.predicted_s = job.predicted
        if reads.ahead_s:
            its.ahead_s = job.ahead
        if reads.attained:
            its.attained = job.attained
            if job.active == 1:
                its.attained = np.rint(job.attained + _sent(row))
            else:
                overlap = True
    if reads.active_gamma:
        for c in range(len(coflows)):
            ruled.jobs[coflows[c].job].active_gamma = 0.0
        for c in range(len(coflows)):
            ruled.jobs[coflows[c].job].active_gamma += coflows[c].gamma * coflows[c].left
    if overlap:
        _add_sent(coflows, jobs, ruled.jobs)


@inlined
def _sent(row):
    """Return the bytes that a coflow has sent."""
    return row.total - row.base * row.left


@inlined
def _add_sent(coflows, jobs, seen):
    """Add what coflows have sent to the attained service of jobs that have several."""
    for c in range(len(coflows)):
        if jobs[coflows[c].job].active > 1:
            seen[coflows[c].job].attained += _sent(coflows[c])
    for c in range(len(coflows)):
        its = seen[coflows[c].job]
        its.attained = np.rint(its.attained)


# --- from keys to an order -----------------------------------------------------------------
@inlined
def _sort(coflows, key, tie, ruled):
    """Sort coflows by key, tie and, if the form says so, job."""
    form = ruled.form
    _sort_by(coflows, key, tie, form.by_job, ruled)
    if form.merges and _merge_equal(ruled.sequence[:len(key)], key):
        _sort_by(coflows, key, tie, form.by_job, ruled)


@in_place
def _sort_by(coflows, key, tie, by_job, ruled):
    """Sort by insertion if nearly sorted, else by merging; the result is the same."""
    if not _insert(coflows, key, tie, by_job, ruled.sequence[:len(key)]):
        _merge_runs(coflows, key, tie, by_job, ruled)


@inlined
def _insert(coflows, key, tie, by_job, sequence):
    """Sort by insertion; return False if that takes too long."""
    moves = 0
    last = key[sequence[0]]
    for k in range(1, len(sequence)):
        c, at = sequence[k], k
        if last < key[c]:
            last = key[c]
            continue
        while at > 0 and _precedes(c, sequence[at - 1], coflows, key, tie, by_job):
            sequence[at] = sequence[at - 1]
            at -= 1
        sequence[at] = c
        moves += k - at
        if moves > _MOVES * len(sequence):
            return False
    return True


@inlined
def _precedes(a, b, coflows, key, tie, by_job):
    """Whether a comes before b; of equal coflows, the first in the rows does."""
    if key[a] != key[b]:
        return key[a] < key[b]
    if tie[a] != tie[b]:
        return tie[a] < tie[b]
    if by_job and coflows[a].job != coflows[b].job:
        return coflows[a].job < coflows[b].job
    return a < b


@inlined
def _merge_runs(coflows, key, tie, by_job, ruled):
    """Sort by merging runs of doubling length."""
    count = len(key)
    now, then = ruled.sequence[:count], ruled.spare[:count]
    for c in range(count):
        now[c] = c
    run = 1
    while run < count:
        for start in range(0, count, 2 * run):
            _merge(now, then, start, min(start + run, count), min(start + 2 * run, count), coflows,
                   key, tie, by_job)
        now, then = then, now
        run *= 2
    for c in range(count):
        ruled.sequence[c] = now[c]


@inlined
def _merge(now, then, start, middle, stop, coflows, key, tie, by_job):
    i, j = start, middle
    for k in range(start, stop):
        if j == stop or (i < middle
                         and _precedes(now[i], now[j], coflows, key, tie, by_job)):
            then[k] = now[i]
            i += 1
        else:
            then[k] = now[j]
            j += 1


@inlined
def _merge_equal(sequence, key):
    """Make nearly equal keys in a row equal, as `netsim.ties.merge_equal`; return if any was."""
    changed = False
    last = key[sequence[0]]
    for k in range(1, len(sequence)):
        now = key[sequence[k]]
        if now == last or now - last <= EQUAL * min(abs(now), abs(last)):
            changed = changed or now != key[sequence[k - 1]]
            key[sequence[k]] = key[sequence[k - 1]]
        last = now
    return changed


# --- from an order to shares ---------------------------------------------------------------
@in_place
def share_out(ruled, coflows):
    """Compute each coflow's share from a rule's answer, into ``ruled.order.share``.

    The crossings must be up to date. Return whether the shares are known to fit all links; if not,
    the caller must check.
    """
    count = len(coflows)
    share, most = ruled.order.share[:count], ruled.order.most[:count]
    if ruled.form.by_place:
        _hand_out(share, ruled)
        _hand_out(most, ruled)
    if ruled.form.stretch != UNSTRETCHED:
        _stretch(coflows, share, ruled)
    return _is_any_positive(most) and add_greedily(ruled.crossings,
                                                   ruled.sequence[:count], most, share)


@inlined
def _is_any_positive(values):
    found = False
    for k in range(len(values)):
        found |= values[k] > 0.0
    return found


@inlined
def _is_order(ruled, count):
    """Whether the sequence contains each of `count` coflows once."""
    named = ruled.spare[:count]
    named[:] = 0
    for c in ruled.sequence[:count]:
        if not 0 <= c < count or named[c]:
            return False
        named[c] = 1
    return True


@inlined
def _hand_out(values, ruled):
    """Give the k-th value to the k-th coflow in order."""
    alike = True
    for k in range(len(values)):
        ruled.room[k] = values[k]
        alike &= values[k] == values[0]
    if not alike:
        for k in range(len(values)):
            values[ruled.sequence[k]] = ruled.room[k]


@inlined
def _stretch(coflows, share, ruled):
    """Scale all shares, or those of coflows without one, by the largest factor that fits."""
    count = len(coflows)
    others = ruled.room[:count]
    if ruled.form.stretch == OTHERS:
        for c in range(count):
            others[c] = 1.0 if share[c] == 0.0 else 0.0
        factor = min(find_factor(ruled.crossings, others, share), 1.0)
        for c in range(count):
            share[c] += others[c] * factor
        return
    factor = find_factor(ruled.crossings, share, others[:0])
    greatest = 0.0
    for c in range(count):
        # A coflow that needs a dead link does not move at any factor.
        if ruled.crossings.known[c].gamma < np.inf:
            greatest = max(greatest, share[c])
    factor = min(factor, 1.0 / greatest) if greatest > 0.0 else 1.0
    for c in range(count):
        share[c] *= factor


# --- what the loop calls ---------------------------------------------------------------
@in_place
def _find_rates(ruled, coflows, jobs, pools, capacity, state):
    """Have the rule decide; return `REFUSED` if its answer is invalid."""
    state.decides = len(coflows) > 0
    if not len(coflows):
        return WAITS
    if ruled.asks_python and not ruled.answered[0]:
        state.decides = False
        return POLICY
    flows, hops, loads = pools
    refresh(coflows, flows, hops, loads, capacity)
    take_in(ruled.crossings, coflows, loads, capacity)
    if ruled.asks_python:
        ruled.answered[0] = 0
        state.link = SOUND if _is_order(ruled, len(coflows)) else NO_ORDER
    else:
        state.link = decide(ruled, coflows, jobs, state.now)
    if state.link == SOUND:
        fits = share_out(ruled, coflows)
        _, state.link = apply_shares(coflows, loads, ruled.order.share, capacity, ruled.used,
                                     state.now, ruled.check and not fits)
    return WAITS if state.link == -1 else REFUSED


@in_place
def _find_end(ruled, coflows, state):
    """Find the next end of a coflow, and the next call of the rule; see `loop.find_end`."""
    state.end = np.inf
    wakes_in = ruled.order.wake_at[0] - state.now
    for c in range(len(coflows)):
        row = coflows[c]
        if row.open > 0:
            state.end = min(state.end, row.finish)
            if ruled.order.limit[c] < np.inf and row.speed > 0.0:
                ahead = ruled.order.limit[c] - _sent(row)
                wakes_in = min(wakes_in, max(ahead, 0.0) / (row.base * row.speed))
    state.dt = state.end - state.now
    ruled.wakes_in[0] = wakes_in


@in_place
def _crossing_in(ruled):
    return ruled.wakes_in[0]


@in_place
def _advance(_ruled, coflows, pools, _capacity, dt, now, slack, state, finished, carried):
    """Move bytes for `dt` seconds; see `loop.advance`."""
    advance_in_step(coflows, pools[2], dt, now, slack, carried)
    state.finished = 0
    for c in range(len(coflows)):
        if coflows[c].open == 0:
            finished[state.finished] = c
            state.finished += 1


@in_place
def _join(_ruled, _coflows, _pools):
    """Return True: the engine works on the rows themselves."""
    return True


@in_place
def _leave(_ruled, _coflows, _pools, _state):
    """Do nothing: the rows are up to date."""


#: See `loop_of`.
run = loop_of("rules", find_rates=_find_rates, find_end=_find_end, crossing_in=_crossing_in,
              advance=_advance, write_rows=write_nothing, join=_join, leave=_leave)
