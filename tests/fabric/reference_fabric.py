"""A slow, obviously right simulation of jobs that are chains of coflows.

It steps from one observed instant to the next, flow by flow, in plain floats. An instant is
observed at the first multiple of the interval eta that is not before it (parrot.md,
"Observation"), or at once where eta is 0. Nothing of the fabric is used.
"""

import math

import numpy as np

from netsim.reference.kernels import Problem

#: Of eta: how late an instant may be and still be observed.
LATE = 1e-6
DUST = 1e-9


class Job:
    """A job: coflows, lists of (path, nbytes), one after the other.

    Before each coflow it computes for ``compute[k]`` seconds. ``left`` and ``ends`` are the
    bytes and predicted ends of the flows of its active coflow, None where it has none.
    """

    def __init__(self, arrival, coflows, compute):
        self.coflows = [[(path, nbytes) for path, nbytes in flows if nbytes > 0 and len(path)]
                        for flows in coflows]
        self.compute = compute
        self.empties = []  # when coflows without bytes came and ended, as long as nobody saw it
        self.completed, self.attained, self.finish = 0, 0.0, arrival
        self.left = self.ends = None
        self.wait(arrival)

    @property
    def done(self):
        return self.completed == len(self.coflows)

    @property
    def flows(self):
        return self.coflows[self.completed]

    @property
    def sent(self):
        """Whole bytes of all its coflows (S_m)."""
        return round(self.attained + sum(size for _, size in self.flows) - sum(self.left))

    def wait(self, since):
        """Compute, then have the next coflow valid; coflows without bytes are done at once."""
        self.valid = since
        while not self.done:
            self.valid += self.compute[self.completed]
            if self.flows:
                return
            self.finish = self.valid
            self.empties.append(self.valid)
            self.completed += 1

    def start(self):
        self.left = [nbytes for _, nbytes in self.flows]
        self.ends = [math.inf] * len(self.left)

    def send(self, rates, start, now, late):
        """Let bytes flow from `start` to `now`; return how many flows have ended."""
        ended = 0
        for f, (_, size) in enumerate(self.flows):
            if self.left[f] > 0:
                self.left[f] -= rates[f] * (now - start)
                if self.ends[f] <= now + late or self.left[f] <= DUST * size:
                    self.left[f] = 0.0
                    self.ends[f] = min(self.ends[f], now)
                    ended += 1
        return ended

    def complete(self, now):
        """Go on to the next coflow; the true end counts, the rest begins when it is observed."""
        self.attained += sum(size for _, size in self.flows)
        self.finish = max(self.ends)
        self.completed += 1
        self.left = self.ends = None
        self.wait(now)


def problem_of(active, capacity):
    """The unfinished flows as the reference blocks take them; coflow c is of ``active[c]``."""
    flows = [(c, job.left[f], path) for c, job in enumerate(active)
             for f, (path, _) in enumerate(job.flows) if job.left[f] > 0]
    return Problem(np.array([left for _, left, _ in flows]), np.array([c for c, _, _ in flows]),
                   np.cumsum([0, *(len(path) for _, _, path in flows)]),
                   np.concatenate([path for _, _, path in flows]), capacity)


def simulate(jobs, capacity, policy, eta=0.0, wakes_on_flows=False):
    """Run until all is done; return when each job finished.

    ``policy(active, problem)`` returns a rate per unfinished flow. It decides anew when a
    coflow becomes valid or completes and, if it `wakes_on_flows`, when a flow ends.
    """
    def observed(at):
        return math.ceil(at / eta - LATE) * eta if eta else at

    now, active, rates = 0.0, [], {}
    while not all(job.done for job in jobs):
        coming = [job.valid for job in jobs if not job.done and job.left is None]
        coming += [at for job in jobs for at in job.empties]
        for job in active:
            ends = [end for end, left in zip(job.ends, job.left, strict=True) if left > 0]
            coming.append(min(ends) if wakes_on_flows else max(ends))
        start, now = now, max(now, observed(min(coming)))

        happened = False
        for job in active:
            ended = job.send(rates[job], start, now, LATE * eta)
            happened |= wakes_on_flows and ended > 0
            if not any(job.left):
                job.complete(now)
                happened = True
        for job in jobs:
            unseen = [at for at in job.empties if observed(at) > now]
            happened |= len(unseen) < len(job.empties)
            job.empties = unseen
            if not job.done and job.left is None and observed(job.valid) <= now:
                job.start()
                happened = True
        active = [job for job in jobs if job.left is not None]
        if happened and active:
            given = iter(policy(active, problem_of(active, capacity)))
            for job in active:
                rates[job] = [float(next(given)) if left > 0 else 0.0 for left in job.left]
                job.ends = [now + left / rate if rate > 0 and left > 0 else end if left == 0
                            else math.inf
                            for left, rate, end in zip(job.left, rates[job], job.ends, strict=True)]
    return [job.finish for job in jobs]
