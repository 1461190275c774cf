"""The rows that the fabric and its kernels share: flows, hops, loads, coflows, jobs.

Each is a NumPy structured dtype, so that a kernel takes one array per kind of row and
reads ``coflows[c].left`` as Python would.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.compiling import row_type

#: Relative tolerance of a flow's size, a link's capacity or a share: less counts as nothing.
DUST = 1e-9

#: Relative error of a coflow's bytes after subtractions.
ROUNDINGS = 4 * np.finfo(np.float64).eps

#: A flow of fewer bytes counts as empty: divisions by its bytes would leave the range of floats.
LEAST_BYTES = 1e-100

#: A flow.
FLOW = row_type([
    ("size", "f8"),  # bytes
    ("remaining", "f8"),  # bytes left; if its coflow is in step, times that coflow's ``left``
    ("rate", "f8"),  # bytes per second
    ("finish", "f8"),  # when it ends at this rate, or has ended, in seconds; inf without a rate
    ("weight", "f8"),  # where the fabric shares fairly
    ("payload", "f8"),  # bytes without headers
    ("latency", "f8"),  # seconds, of its path
    ("hop", "i8"),  # its HOP rows are from this one on
    ("hops", "i4"),  # how many links it crosses
    ("src", "i4"),  # the host that sends
    ("dst", "i4"),  # the host that receives
    ("index", "i4"),  # its place in the list of its stage
])

#: A flow on a ``link``.
HOP = row_type([
    ("link", "i8"),
    ("slot", "i8"),  # the place of the link among the loads of the coflow
])

#: A coflow on a ``link``.
LOAD = row_type([
    ("link", "i8"),
    ("nbytes", "f8"),  # bytes left of all its flows there, times ``left`` of the coflow
])


class FlowRows(NamedTuple):
    """The rows of all flows, and of the links that they cross and their coflows load."""

    flows: NDArray[Any]  #: of FLOW
    hops: NDArray[Any]  #: of HOP
    loads: NDArray[Any]  #: of LOAD


#: What goes on when a coflow has completed: the next coflow of its chain, at once or after a pause;
#: the process that submitted it; nothing, as its completion has been reported; or operations of its
#: graph.
NEXT_IN_CHAIN, WAITED, REPORTED, IN_GRAPH = 1, 2, 3, 4

#: An active coflow. Policies that keep its flows *in step* change only its ``left``, and never
#: touch the flows. The columns that each decision reads come first, side by side.
COFLOW = row_type([
    ("left", "f8"),  # what is left of the bytes in its FLOW and LOAD rows; 1 if not in step
    ("speed", "f8"),  # in step: by how much ``left`` falls per second
    ("finish", "f8"),  # when it ends at its present rates, in seconds; inf if it does not
    ("open", "i8"),  # how many of its flows have not ended
    ("gamma", "f8"),  # the effective bottleneck of its LOAD rows, in seconds
    ("job", "i8"),  # the number of its job
    ("key", "i8"),  # a number that identifies it; rows are in order of these
    ("base", "f8"),  # the sum of ``remaining`` of its flows
    ("total", "f8"),  # the bytes of all its flows
    ("start", "f8"),  # when it first sent, in seconds; -1: not yet
    ("last", "f8"),  # when the last of its flows ended, in seconds
    ("fresh", "i8"),  # 2: loads and gamma are up to date; 1: loads are; 0: neither
    ("load", "i8"),  # its LOAD rows are from this one on
    ("loads", "i8"),  # how many links it loads
    ("valid", "f8"),  # when it begins, ``overhead`` after its stage: from then on, policies see it
    ("weight", "f8"),  # for policies
    ("nominal_gamma", "f8"),  # gamma of all its bytes at nominal capacities
    ("order", "i8"),  # its place in its job
    ("flow", "i8"),  # its FLOW rows are from this one on
    ("flows", "i8"),  # how many it has
    ("hop", "i8"),  # its HOP rows are from this one on
    ("hops", "i8"),  # how many it has
    ("deadline", "f8"),  # when it should have completed, in seconds; inf: no matter when
    ("max_hops", "i8"),  # the most links that one of its flows crosses
    ("longest", "f8"),  # the bytes of its longest flow
    ("waited", "i8"),  # what goes on when it has completed: as above, or 0 for nothing
    ("split", "f8"),  # the weight that its unfinished flows have together; 0: each has its own
    ("thinner", "i8"),  # 1 if a flow has ended since that was split
    ("unit", "i8"),  # the number of its unit in the max-min engine
    ("overhead", "f8"),  # seconds
    ("arrives", "f8"),  # when messages without bytes arrive (-inf: none); once complete, all flows
    ("reach", "f8"),  # the longest latency of a flow, in seconds
    ("payload", "f8"),  # the bytes of all its flows without headers
])

NO_COFLOWS = np.empty(0, COFLOW)

#: A job.
JOB = row_type([
    ("arrival", "f8"),  # seconds
    ("attained", "f8"),  # bytes sent of its coflows that have completed
    ("sent", "f8"),  # and of those that are active, as of the last `job_attained`
    ("ahead", "f8"),  # the sum of the gammas of coflows that it has not emitted yet; 0: not known
    ("predicted", "f8"),  # what that is predicted to be
    ("longest", "f8"),  # the longest gamma of one that it has
    ("completed", "i8"),  # how many of its coflows have completed
    ("active", "i8"),  # how many are active
    ("gpus", "f8"),  # how many it holds
    ("per_gamma", "f8"),  # the seconds that it takes alone per second of ``ahead``; 0: not known
])

#: A job that the fabric runs by itself. As a *chain*, it sends one coflow after the other: its
#: stages follow each other, round and round. As a *graph*, its operations are done in each of its
#: iterations; its stages are the coflows of these, and it is never due as a chain.
GRAPH = row_type([
    ("first", "i8"),  # its STAGE rows are from this one on
    ("stages", "i8"),  # how many it has
    ("emitted", "i8"),  # how many coflows it has emitted
    ("total", "i8"),  # of how many
    ("due", "f8"),  # when the next one of a chain is; inf while one is active
    ("operations", "i8"),  # its OPERATION rows are from this one on
    ("count", "i8"),  # how many it has
    ("iteration", "i8"),  # the first one that is not complete
    ("iterations", "i8"),  # how many it makes
    ("opened", "i8"),  # those before this one may have begun
    ("kept", "i8"),  # those from this one on have their state in a slot
    ("slots", "i8"),  # how many there are; they are used round and round
    ("state", "i8"),  # its STATE rows are from this one on
    ("children", "i8"),  # the list of its children is from this place on
    ("finish", "f8"),  # the latest end of an operation so far
    ("noticed", "f8"),  # when that is noticed
])

#: A stage.
STAGE = row_type([
    ("coflow", "i8"),  # what it sends, among those of all graphs
    ("pause", "f8"),  # in a chain: seconds from the arrival of the coflow before, with overhead
])

#: An operation.
OPERATION = row_type([
    ("compute_s", "f8"),  # seconds
    ("sends", "i8"),  # after that: which coflow of its graph; -1: none
    ("child", "i8"),  # where the list of those that wait for it begins
    ("children", "i4"),  # how many do in the same iteration
    ("nexts", "i4"),  # and behind these, how many in the next one
    ("blockers", "i4"),  # for how many others it waits
    ("blockers_first", "i4"),  # and in the first iteration
])

#: How far an operation is in an iteration. After the operations of an iteration there is one row
#: more, whose ``blockers`` are the operations that have not ended.
STATE = row_type([
    ("ready", "f8"),  # the latest end of those that it does not wait for any more
    ("begins", "f8"),  # when its coflow begins: it has computed, and the overhead is over
    ("blockers", "i8"),  # for how many others it still waits
])

#: All graphs.
GRAPHS = row_type([
    ("begins", "i8"),  # how many coflows will begin
    ("due", "i8"),  # how many are due, but not yet active
    ("parked", "i8"),  # how many operations wait for a slot for the next iteration
    ("ended", "i8"),  # how many graphs have ended
])

#: The event loop.
LOOP = row_type([
    ("now", "f8"),  # bytes are as of this time
    ("dt", "f8"),  # in how many seconds the next flow ends
    ("end", "f8"),  # when that is
    ("limit_at", "f8"),  # when a coflow reaches its limit
    ("until", "f8"),  # SimPy has an event then: the loop is held before
    ("interval", "f8"),  # events are observed at multiples of it
    ("observed_at", "f8"),  # when next; inf if nothing has happened
    ("due", "f8"),  # when the next coflow of a chain becomes valid
    ("reported_until", "f8"),  # the observer has been told what happened until then
    ("pause", "i8"),  # when it is told: see `loop.NEVER`
    ("count", "i8"),  # how many COFLOW rows there are
    ("key", "i8"),  # that of the next one
    ("admitted", "i8"),  # how many pending coflows have become active since the loop began
    ("idle", "i8"),  # since the last pause, how many more jobs have an active coflow
    ("removed", "i8"),  # since then, how many coflows have gone from the rows
    ("ended", "i8"),  # since then, how many flows have ended
    ("decisions", "i8"),  # since then, how many there were
    ("finished", "i8"),  # how many coflows have completed and are not noticed yet
    ("admits_arrivals", "i8"),  # whether it admits coflows, and goes on past coflow events
    ("removes_finished", "i8"),  # whether it removes coflows from the rows
    ("advance_only", "i8"),  # whether it only moves bytes until ``observed_at``
    ("simultaneous", "i8"),  # whether flows that end within a few roundings end at once
    ("decides", "i8"),  # whether the next rates are a decision
    ("reason", "i8"),  # why it has stopped: see `loop.WAITS`
    ("link", "i8"),  # which link is overloaded, or what is wrong: see `rules.SOUND`
    ("bound", "f8"),  # the policy must be asked then: the loop stops before
    ("shows", "i8"),  # whether coflows have come, begun or ended, or there was a decision
    ("stepwise", "i8"),  # whether it is held then
    ("steps", "i8"),  # after so many it returns, so that Python can handle signals
])
