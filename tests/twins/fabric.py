"""Readable simulation of jobs that are chains of coflows, slow but obviously correct.

It steps from one observed instant to the next, flow by flow, in plain floats, and uses no code of
the fabric. An event is observed at the first multiple of the observe interval that is not before
it, or at once without an interval.

Before it stand readable versions of the kernels that make rows of coflows and follow their flows.
Rows are dicts with the columns of `netsim.fabric.records`, in lists.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.fabric.records import LEAST_BYTES
from tests.twins.kernels import Floats, Problem, throttle

Rows = list[dict[str, Any]]


def bind(src: Sequence[int], dst: Sequence[int], nbytes: Sequence[float],
         paths: Sequence[Sequence[int]], capacity: Sequence[float], stops: Sequence[int],
         payload: Sequence[float], latency: Sequence[float]) -> tuple[Rows, Rows, Rows, Rows]:
    """Make the COFLOW, FLOW, HOP and LOAD rows of coflows that have sent nothing.

    `paths` has the links that each flow crosses, and `stops` the index after the last flow of each
    coflow. A flow that crosses no link is left out. So is one without bytes: it arrives after its
    latency.
    """
    coflows: Rows = []
    flows: Rows = []
    hops: Rows = []
    loads: Rows = []
    for begin, stop in zip([0, *stops[:-1]], stops, strict=True):
        crossing = [f for f in range(begin, stop) if len(paths[f])]
        sending = [f for f in crossing if nbytes[f] >= LEAST_BYTES]
        empty = [f for f in crossing if nbytes[f] < LEAST_BYTES]
        total = sum(nbytes[f] for f in sending)
        used = sorted({link for f in sending for link in paths[f]})
        load = [sum(nbytes[f] for f in sending for other in paths[f] if other == link)
                for link in used]
        gamma = max((x / capacity[link] if capacity[link] else math.inf
                     for link, x in zip(used, load, strict=True)), default=0.0)
        coflows.append({
            "flow": len(flows), "flows": len(sending), "open": len(sending),
            "hop": len(hops), "hops": sum(len(paths[f]) for f in sending),
            "load": len(loads), "loads": len(used),
            "total": total, "base": total, "payload": sum(payload[f] for f in sending),
            "longest": max((nbytes[f] for f in sending), default=0.0),
            "max_hops": max((len(paths[f]) for f in sending), default=0),
            "reach": max((latency[f] for f in sending), default=0.0),
            "arrives": max((latency[f] for f in empty), default=-math.inf),
            "gamma": gamma, "nominal_gamma": gamma, "left": 1.0, "weight": 1.0, "fresh": 1,
            "start": -1.0, "finish": math.inf, "deadline": math.inf})
        for f in sending:
            flows.append({"size": nbytes[f], "remaining": nbytes[f], "finish": math.inf,
                          "weight": 1.0, "payload": payload[f], "latency": latency[f],
                          "hop": len(hops), "hops": len(paths[f]), "src": src[f], "dst": dst[f],
                          "index": f - begin})
            hops += [{"link": link, "slot": used.index(link)} for link in paths[f]]
        loads += [{"link": link, "nbytes": x} for link, x in zip(used, load, strict=True)]
    return coflows, flows, hops, loads


def arrival(arrives: float, last: float, ends: Sequence[float], latency: Sequence[float]) -> float:
    """Compute when the last byte of a completed coflow arrives, in seconds.

    `arrives` is when the last of its messages without bytes does (-inf if it has none), and `last`
    when its last flow ended. `ends` and `latency` are those of its flows.
    """
    return max([arrives, last, *(end + late for end, late in zip(ends, latency, strict=True))])


def sent_over(path: Sequence[int], levels: Sequence[Sequence[float]],
              seconds: Sequence[float]) -> float:
    """Sum the bytes that a flow sends over a path, at the lowest level of its links.

    `levels` has, for each link, the bytes per second at each instant, which lasts `seconds`.
    """
    return sum(time * min(levels[link][at] for link in path) for at, time in enumerate(seconds))


#: Lateness, as a fraction of the observe interval, with which an event is still observed.
_LATE = 1e-6

#: Fraction of a flow's size that counts as zero.
_DUST = 1e-9

#: A policy: returns the rate of each unfinished flow, given the sending jobs and their flows.
Policy = Callable[["list[ChainJob]", Problem], Iterable[float]]

#: The seconds after which to ask a policy again, given also the rates that it has returned.
Again = Callable[["list[ChainJob]", Problem, Floats], float]

Path = Sequence[int] | NDArray[np.int64]


class ChainJob:
    """A job whose coflows follow each other, each after a computation.

    Each coflow is given by the links that its flows cross, and by their bytes.
    """

    def __init__(self, arrival: float, coflows: Iterable[Sequence[tuple[Path, float]]],
                 compute: Sequence[float]) -> None:
        self.coflows = [[(path, nbytes) for path, nbytes in flows if nbytes > 0 and len(path)]
                        for flows in coflows]
        self.compute = compute
        self.unseen_empty: list[float] = []  # ends of empty coflows, not observed yet
        #: Completed coflows (Z_m), their bytes, and the end of the last of them, in seconds.
        self.completed, self.attained, self.finish = 0, 0.0, arrival
        #: Bytes sent by all its coflows, rounded to an integer (S_m), as of the last `count`.
        self.sent = 0
        #: Remaining bytes and predicted end of each flow of the active coflow; None without one.
        self.left: list[float] | None = None
        self.ends: list[float] | None = None
        self._wait(arrival)

    @property
    def done(self) -> bool:
        """Whether all coflows have completed."""
        return self.completed == len(self.coflows)

    @property
    def flows(self) -> list[tuple[Path, float]]:
        """Path and size of each flow of the current coflow."""
        return self.coflows[self.completed]

    def count(self) -> None:
        """Count the bytes that the job has sent."""
        assert self.left is not None
        self.sent = round(self.attained + sum(size for _, size in self.flows) - sum(self.left))

    def _wait(self, since: float) -> None:
        """Compute until the next coflow is valid; empty coflows complete at once."""
        self.valid = since
        while not self.done:
            self.valid += self.compute[self.completed]
            if self.flows:
                return
            self.finish = self.valid
            self.unseen_empty.append(self.valid)
            self.completed += 1

    def start(self) -> None:
        """Activate the current coflow."""
        self.left = [nbytes for _, nbytes in self.flows]
        self.ends = [math.inf] * len(self.left)

    def send(self, rates: Sequence[float], start: float, now: float, late: float) -> int:
        """Send from `start` to `now`; return the number of flows that ended."""
        assert self.left is not None
        assert self.ends is not None
        ended = 0
        for f, (_, size) in enumerate(self.flows):
            if self.left[f] > 0:
                self.left[f] -= rates[f] * (now - start)
                if self.ends[f] <= now + late or self.left[f] <= _DUST * size:
                    self.left[f] = 0.0
                    self.ends[f] = min(self.ends[f], now)
                    ended += 1
        return ended

    def complete(self, now: float) -> None:
        """Complete the coflow at its true end; its successor begins when that end is observed."""
        assert self.ends is not None
        self.attained += sum(size for _, size in self.flows)
        self.finish = max(self.ends)
        self.completed += 1
        self.left = self.ends = None
        self._wait(now)

    def next_end(self, of_flows: bool) -> float:
        """The predicted end of the next flow, or of the coflow; inf if all have ended."""
        assert self.left is not None
        assert self.ends is not None
        ends = [end for end, left in zip(self.ends, self.left, strict=True) if left > 0]
        return (min if of_flows else max)(ends, default=math.inf)

    def predict(self, now: float, rates: Sequence[float]) -> None:
        """Predict the end of each flow at its new rate."""
        assert self.left is not None
        assert self.ends is not None
        self.ends = [end if left == 0 else now + left / rate if rate > 0 else math.inf
                     for left, rate, end in zip(self.left, rates, self.ends, strict=True)]


def finish_times(jobs: Sequence[ChainJob], capacity: Floats, policy: Policy,
                 observe_interval: float = 0.0, wakes_on_flows: bool = False, *,
                 again: Again | None = None, changes: Sequence[tuple[float, int, float]] = (),
                 in_step: bool = False) -> list[float]:
    """Simulate jobs; return the finish time of each, in seconds.

    The policy is called whenever a coflow becomes valid or completes; with `wakes_on_flows`, also
    when a flow ends; after the seconds that `again` returns, though nothing else happens; and when
    the capacity of a link that an unfinished flow crosses has changed. Unless that link has failed
    or been repaired, the bytes that jobs have sent are then said to be those of the last call, so
    that their order stands.

    `changes` are capacities ``(at, link, capacity)``, in bytes per second, that links have from an
    instant on, in order of time. Until the policy is called, rates can only fall, by `throttle`;
    with `in_step`, all flows of a coflow then slow down by the same factor.
    """
    run = _Run(jobs, capacity.copy(), policy, observe_interval, wakes_on_flows, again, in_step)
    ahead = list(changes)
    while not all(job.done for job in jobs):
        now = run.next_instant()
        if ahead and ahead[0][0] <= now:
            run.change(*ahead.pop(0))
        else:
            run.observe(now)
    return [job.finish for job in jobs]


@dataclass(eq=False)
class _Run:
    """A simulation at the time `now`.

    The policy is called at `due`, when the order of jobs stands, and at `anew`, when the bytes that
    they have sent are counted again. Flows that have ended unnoticed, as a capacity changed, are
    noticed at `look`.
    """

    jobs: Sequence[ChainJob]
    capacity: Floats
    policy: Policy
    interval: float
    wakes_on_flows: bool
    again: Again | None
    in_step: bool
    now: float = 0.0
    due: float = math.inf
    anew: float = math.inf
    look: float = math.inf
    active: list[ChainJob] = field(default_factory=list)
    rates: dict[ChainJob, list[float]] = field(default_factory=dict)

    def next_instant(self) -> float:
        """The next instant at which something is observed."""
        coming = [job.valid for job in self.jobs if not job.done and job.left is None]
        coming += [at for job in self.jobs for at in job.unseen_empty]
        coming += [job.next_end(self.wakes_on_flows) for job in self.active]
        return max(self.now, min(_observed(min(coming), self.interval), self.due, self.anew,
                                 self.look))

    def change(self, at: float, link: int, capacity: float) -> None:
        """Change a capacity, observed like other events, and reduce rates that are too high."""
        if self._send(at):
            self.look = _observed(at, self.interval)
            self.anew = self.look if self.wakes_on_flows else self.anew
        lives = self.capacity[link] > 0 and capacity > 0
        self.capacity[link] = capacity
        sending = [job for job in self.active if any(job.left or ())]
        if sending:
            given = [rate for job in sending
                     for rate, left in zip(self.rates[job], job.left or (), strict=True) if left]
            problem = _problem_of(sending, self.capacity)
            self._put_in_force(sending, throttle(problem, np.array(given), self.in_step))
            if link in problem.links:
                at = _observed(at, self.interval)
                self.due, self.anew = (at, self.anew) if lives else (self.due, at)

    def observe(self, now: float) -> None:
        """Observe what has happened; call the policy if it wakes on that."""
        happened = now >= self.anew
        self.look = math.inf
        happened |= self._send(now) > 0 and self.wakes_on_flows
        for job in self.active:
            if not any(job.left or ()):
                job.complete(now)
                happened = True
        for job in self.jobs:
            happened |= _admit(job, now, self.interval)
        self.active = [job for job in self.jobs if job.left is not None]
        for job in self.active if happened else ():
            job.count()
        if happened or now >= self.due:
            self.due = self.anew = math.inf
            if self.active:
                self._decide()

    def _decide(self) -> None:
        problem = _problem_of(self.active, self.capacity)
        rates = np.array(list(self.policy(self.active, problem)))
        self._put_in_force(self.active, rates)
        if self.again is not None:
            self.anew = _observed(self.now + self.again(self.active, problem, rates), self.interval)
            if self.anew <= self.now:
                self.anew = max(self.now + self.interval, math.nextafter(self.now, math.inf))

    def _send(self, until: float) -> int:
        """Send until an instant; return the number of flows that ended."""
        start, self.now = self.now, until
        late = _LATE * self.interval
        return sum(job.send(self.rates[job], start, until, late) for job in self.active)

    def _put_in_force(self, sending: Sequence[ChainJob], rates: Iterable[float]) -> None:
        given = iter(rates)
        for job in sending:
            self.rates[job] = [float(next(given)) if left > 0 else 0.0 for left in job.left or ()]
            job.predict(self.now, self.rates[job])


def _observed(at: float, interval: float) -> float:
    """The instant at which an event is observed."""
    return math.ceil(at / interval - _LATE) * interval if interval and at < math.inf else at


def _admit(job: ChainJob, now: float, interval: float) -> bool:
    """Observe coflows that have become valid by now; return whether there were any."""
    unseen = [at for at in job.unseen_empty if _observed(at, interval) > now]
    happened = len(unseen) < len(job.unseen_empty)
    job.unseen_empty = unseen
    if not job.done and job.left is None and _observed(job.valid, interval) <= now:
        job.start()
        happened = True
    return happened


def _problem_of(active: Sequence[ChainJob], capacity: Floats) -> Problem:
    """Make a `Problem` of the unfinished flows, in which coflow c is that of ``active[c]``."""
    flows = [(c, left, path) for c, job in enumerate(active)
             for left, (path, _) in zip(job.left or (), job.flows, strict=True) if left > 0]
    return Problem(np.array([left for _, left, _ in flows]), np.array([c for c, _, _ in flows]),
                   np.cumsum([0, *(len(path) for _, _, path in flows)]),
                   np.concatenate([path for _, _, path in flows]), capacity)
