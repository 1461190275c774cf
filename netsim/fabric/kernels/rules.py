"""Compiled rules of policies: what they see, what they write, and how they are called."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.kernels import in_place, inlined, row_type
from netsim.ties import EQUAL

#: What a rule sees of each active coflow, and of each job; the names are those of `FabricView`.
COFLOWS = row_type([("job", "i8"), ("id", "i8"), ("order", "i8"), ("width", "i8"),
                    ("flow_count", "i8"), ("valid_s", "f8"), ("weight", "f8"),
                    ("deadline_s", "f8"), ("sent", "f8"), ("total", "f8"), ("remaining", "f8"),
                    ("gamma", "f8"), ("nominal_gamma", "f8"), ("longest", "f8")])

#: What it sees of each job; again, the names are those of `FabricView`.
JOBS = row_type([("active", "i8"), ("completed", "i8"), ("arrival_s", "f8"), ("attained", "f8"),
                 ("active_gamma", "f8"), ("longest_gamma", "f8"), ("predicted_s", "f8"),
                 ("ahead_s", "f8")])

#: What is done to the shares that a rule gives: nothing; all grow by the largest common factor
#: that fits; those without one get the largest common share that fits.
UNSTRETCHED, ALL, OTHERS = range(3)

#: In place of a link: all is well; the rule has written an invalid value, or a field that its form
#: ignores; a policy's order does not name each coflow once; the rule has raised an exception.
SOUND, UNSOUND, UNUSED, NO_ORDER, RAISED = -1, -3, -4, -5, -6

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


#: Rows of `RuleState.values`: the fields of `RuleOutput` that have a number per coflow, numbered as
#: there, and scratch space in place of the queues.
KEY, TIE, SHARE, MOST, WEIGHT, SCRATCH, LIMIT = range(7)

#: What the numbers in these rows may be, from the least to the greatest.
_ALLOWED = np.array([[-np.inf, np.inf], [-np.inf, np.inf], [0.0, np.finfo(np.float64).max],
                     [0.0, 1.0], [np.nextafter(0.0, 1.0), np.finfo(np.float64).max],
                     [0.0, 0.0], [-np.inf, np.inf]])

#: Rows of `RuleState.lists`, each with one entry per coflow: the coflows in order; the queue that
#: the rule gives to each; its key at the last decision; scratch space.
SEQUENCE, QUEUE, SEEN, SPARE = range(4)

#: Rows of `RuleState.scalars`: what the rule has written, and the initial values. Columns: wake_at,
#: and then all parts, notes and options.
WRITTEN, INITIAL = range(2)

#: How to interpret the order of a rule, and where it stands.
RULE = row_type([
    ("most", "f8"),  # the initial value of ``RuleOutput.most``
    ("by_place", "i8"),  # whether shares are listed in the order of service
    ("stretch", "i8"),  # `UNSTRETCHED`, `ALL` or `OTHERS`
    ("by_job", "i8"),  # whether ties go by job, not by the time at which coflows became valid
    ("merges", "i8"),  # whether keys that differ only by rounding errors count as equal
    ("primary", "i8"),  # if it serves coflows in order, the first pass, as in `priority_state`
    ("backfill", "i8"),  # and how the rest is allocated
    ("queues", "i8"),  # how many there are
    ("notes", "i8"),  # how many there are
    ("check", "i8"),  # whether to check shares
    ("answered", "i8"),  # whether a policy asked in Python has filled in the next decision
    ("seen", "i8"),  # how many coflows there were at the last decision
    ("time", "f8"),  # the one that the rule reads, in seconds
    ("wakes_in", "f8"),  # in so many seconds it must be called again, even if nothing happens
    ("field", "i8"),  # of an invalid answer: the field of `RuleOutput`
    ("place", "i8"),  # and the place in it
])

#: Whether a rule is told the time, and the columns of `COFLOWS` and `JOBS` that it reads. It may
#: always read the job of a coflow, whatever it says here. The names are those of `FabricView`.
READS = row_type([("now", "?"), *((name, "?") for name in [
    *COFLOWS.names, *JOBS.names])])  # type: ignore[misc]


class RuleState(NamedTuple):
    """A rule at work, with space for more coflows."""

    function: Any  #: a `rule_code.CompiledRule`; None if Python is asked instead
    form: NDArray[Any]  #: of RULE, shape (1,)
    reads: NDArray[Any]  #: of READS, shape (1,)
    coflows: NDArray[Any]  #: of COFLOWS; what the rule reads
    jobs: NDArray[Any]  #: of JOBS
    values: NDArray[np.float64]  #: by coflow; see `KEY`
    lists: NDArray[np.int64]  #: by coflow; see `SEQUENCE`
    scalars: NDArray[np.float64]  #: see `WRITTEN`


@inlined
def output_of(rule, count):
    """Return what a rule writes for `count` coflows."""
    values, written = rule.values, rule.scalars[WRITTEN]
    notes = 1 + rule.form[0].queues
    options = notes + rule.form[0].notes
    return RuleOutput(values[KEY][:count], values[TIE][:count], values[SHARE][:count],
                      values[MOST][:count], values[WEIGHT][:count], rule.lists[QUEUE][:count],
                      values[LIMIT][:count], written[1:notes], written[:1],
                      written[notes:options], written[options:])


# --- calling a rule ------------------------------------------------------------------------
@in_place
def decide(rule, coflows, jobs, now):
    """Call a rule, and sort its sequence of coflows by what it has written.

    Return `SOUND`, `UNSOUND` or `RAISED`.
    """
    count, form = len(coflows), rule.form[0]
    if rule.reads[0].now:
        form.time = now
    _show(rule.reads[0], rule.coflows, rule.jobs, coflows, jobs)
    _clear(rule, count)
    if _raises(rule.function, rule.coflows[:count], rule.jobs, form.time, output_of(rule, count)):
        return RAISED
    if not _is_sound(rule, count, now):
        return UNSOUND
    _recall(rule.lists, form, coflows)
    _sort(rule, coflows)
    return SOUND


@in_place
def _raises(function, coflows, jobs, now, order):
    """Call a rule; return whether it raises an exception. Without one, this is never called."""
    if function is None:
        return 1
    return function(coflows, jobs, now, order)


@inlined
def _clear(rule, count):
    """Reset the fields that a rule may leave unwritten, and the options, which it might change."""
    values, queue = rule.values, rule.lists[QUEUE]
    for k in range(rule.scalars.shape[1]):
        rule.scalars[WRITTEN, k] = rule.scalars[INITIAL, k]
    for c in range(count):
        values[KEY, c] = values[TIE, c] = values[SHARE, c] = 0.0
        values[MOST, c] = rule.form[0].most
        values[WEIGHT, c] = 1.0
        values[LIMIT, c] = np.inf
        queue[c] = 0


@inlined
def _is_sound(rule, count, now):
    """Whether all that a rule has written is valid; otherwise store what is not."""
    form, written = rule.form[0], rule.scalars[WRITTEN]
    form.field = -1
    if not written[0] > now:
        form.field, form.place = 8, 0
    used = 0.0
    for q in range(form.queues):
        used += written[1 + q]
        if not (0.0 <= written[1 + q] <= 1.0 and used <= 1.0 + 1e-9):
            form.field, form.place = 7, q
    for field in range(LIMIT, KEY - 1, -1):
        if field == SCRATCH:
            queue = rule.lists[QUEUE]
            for c in range(count):
                if not 0 <= queue[c] < form.queues:
                    form.field, form.place = field, c
        else:
            _check_range(rule.values[field][:count], field, form)
    return form.field == -1


@in_place
def _check_range(values, field, form):
    """Store the place of the last value of a field that is not allowed, if there is one."""
    least, most = _ALLOWED[field, 0], _ALLOWED[field, 1]
    fits = True
    for c in range(len(values)):
        fits &= least <= values[c] <= most
    if not fits:
        for c in range(len(values)):
            if not least <= values[c] <= most:
                form.field, form.place = field, c


@in_place
def _show(reads, its_coflows, its_jobs, coflows, jobs):
    """Update the columns that the rule reads."""
    overlap = False
    for c in range(len(coflows)):
        row, to = coflows[c], its_coflows[c]
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
            to.sent = sent_by(row)
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
        job, its = jobs[row.job], its_jobs[row.job]
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
                its.attained = np.rint(job.attained + sent_by(row))
            else:
                overlap = True
    if reads.active_gamma:
        for c in range(len(coflows)):
            its_jobs[coflows[c].job].active_gamma = 0.0
        for c in range(len(coflows)):
            its_jobs[coflows[c].job].active_gamma += coflows[c].gamma * coflows[c].left
    if overlap:
        _add_sent(coflows, jobs, its_jobs)


@inlined
def sent_by(row):
    """Return the bytes that a coflow has sent."""
    return row.total - row.base * row.left


@inlined
def _add_sent(coflows, jobs, its_jobs):
    """Add what coflows have sent to the attained service of jobs that have several."""
    for c in range(len(coflows)):
        if jobs[coflows[c].job].active > 1:
            its_jobs[coflows[c].job].attained += sent_by(coflows[c])
    for c in range(len(coflows)):
        its = its_jobs[coflows[c].job]
        its.attained = np.rint(its.attained)


# --- from keys to an order -----------------------------------------------------------------
@inlined
def _recall(lists, form, coflows):
    """Start from the last order, which is often nearly right; new coflows come last."""
    seen, spare, sequence = lists[SEEN], lists[SPARE], lists[SEQUENCE]
    before, kept = form.seen, 0
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
    form.seen = len(coflows)


@inlined
def _sort(rule, coflows):
    """Sort coflows by key, tie and, if the form says so, job."""
    count, form = len(coflows), rule.form[0]
    key, tie = rule.values[KEY][:count], rule.values[TIE][:count]
    sequence, spare = rule.lists[SEQUENCE][:count], rule.lists[SPARE][:count]
    _sort_by(coflows, key, tie, form.by_job, sequence, spare)
    if form.merges and _merge_equal(sequence, key):
        _sort_by(coflows, key, tie, form.by_job, sequence, spare)


@in_place
def _sort_by(coflows, key, tie, by_job, sequence, spare):
    """Sort by insertion if nearly sorted, else by merging; the result is the same."""
    if not _insert(coflows, key, tie, by_job, sequence):
        _merge_runs(coflows, key, tie, by_job, sequence, spare)


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


@in_place
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
def _merge_runs(coflows, key, tie, by_job, sequence, spare):
    """Sort by merging runs of doubling length."""
    count = len(key)
    for c in range(count):
        sequence[c] = c
    run = 1
    while run < count:
        for start in range(0, count, 2 * run):
            middle, stop = min(start + run, count), min(start + 2 * run, count)
            i, j = start, middle
            for k in range(start, stop):
                if j == stop or (i < middle and _precedes(sequence[i], sequence[j], coflows, key,
                                                          tie, by_job)):
                    spare[k] = sequence[i]
                    i += 1
                else:
                    spare[k] = sequence[j]
                    j += 1
        for c in range(count):
            sequence[c] = spare[c]
        run *= 2


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
