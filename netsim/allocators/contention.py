"""Contention among ring-all-reduce jobs: the analytic model of SJF-BCO as an allocator.

Equation numbers are those of the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netsim.allocators.options import check_choice
from netsim.checks import is_number
from netsim.errors import InputError
from netsim.fabric.allocation import Allocation, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.view import FabricView, Floats, Ints
from netsim.plain import plain_numbers

__all__ = ["RingContention"]


@plain_numbers
@dataclass(frozen=True)
class RingContention(Allocator):
    """Jobs slow each other down by the contention model of SJF-BCO (Eq. 6 to 8).

    With n jobs on a server, k = max(k_min, xi1 n) and f(alpha, k) = k + alpha (k - 1), each job
    gets at most 1/f of the server's port. All flows of a job have the same rate, the smallest that
    its links allow. The policy is not work-conserving: bandwidth lost to contention is not used.

    Parameters
    ----------
    alpha : float
        Cost of contention beyond equal sharing; at least 0 (no cost).
    xi1 : float
        Share of the jobs on a server that are assumed to contend; in (0, 1]. If `count` is
        ``"sending"``, it should be 1, as the fabric simulates which jobs send at a time.
    k_min : float
        Lower limit on the contention k; at least 0. f must be positive.
    count : {"sending", "running"}
        Which jobs are counted on a server: those with unfinished flows from or to it; or, as in
        Eq. 6, all jobs that run on it and on another server, whether they compute or send.

    Notes
    -----
    A link is a port if all flows that cross it begin, or end, at the same server. On other links,
    flows are counted instead of jobs. In a ring, a job has one flow per port and direction, so
    that with xi1 = 1 all rates fit (see `docs/systems/sjf-bco.md`). With a smaller xi1, or with
    jobs that are not rings, they may not. The rate of each job is then divided by the worst
    overload among its links, after which they fit.
    """

    alpha: float = 0.0
    xi1: float = 1.0
    k_min: float = 1.0
    count: str = "sending"

    information: ClassVar[Information] = "agnostic"

    def __post_init__(self) -> None:
        check_choice("count", self.count, ("running", "sending"))
        for name, allowed, fits in (("alpha", "at least 0", lambda alpha: alpha >= 0),
                                    ("xi1", "in (0, 1]", lambda xi1: 0 < xi1 <= 1),
                                    ("k_min", "at least 0", lambda k_min: k_min >= 0)):
            value = getattr(self, name)
            if not (is_number(value) and math.isfinite(value) and fits(value)):
                raise InputError(f"{name} must be finite and {allowed}, not {value!r}")
        if not self.slowdown(np.ones(1))[0] > 0:
            raise InputError(f"k_min must be such that f = k + alpha (k - 1) is positive for one "
                             f"job alone, where k = max(k_min, xi1): at alpha = {self.alpha!r} and "
                             f"xi1 = {self.xi1!r} more than {self.alpha / (1 + self.alpha):g}, "
                             f"not {self.k_min!r}")

    @property
    def sees_running(self) -> bool:
        """Whether running jobs are counted."""
        return self.count == "running"

    @property
    def stall_free(self) -> bool:
        """False: if a flow of a job needs a failed link, none of the job's flows moves."""
        return False

    @property
    def leftover(self) -> str:
        """``"none"``: bandwidth left over is not allocated."""
        return "none"

    def slowdown(self, jobs: Floats) -> Floats:
        """Return f(alpha, max(k_min, xi1 n)) for arrays of n jobs (Eq. 7 and 8)."""
        k = np.maximum(self.k_min, self.xi1 * jobs)
        return k + self.alpha * (k - 1)

    def allocate(self, view: FabricView) -> Allocation:
        """Return the rates, equal for all flows of a job; see `Allocator.allocate`."""
        ptr, links = view.paths
        capacity = view.capacity
        first_hop = ptr[np.cumsum(view.width) - view.width]  # of each coflow
        limit = capacity[links] / self.slowdown(self._contenders(view)[links])
        rate = np.full(int(view.job.max()) + 1, np.inf)
        np.minimum.at(rate, view.job, np.minimum.reduceat(limit, first_hop))
        load = view.link_load(rate[view.job][view.coflow])
        over = np.divide(load, capacity, out=np.zeros(len(capacity)), where=capacity > 0)
        excess = np.ones(len(rate))
        np.maximum.at(excess, view.job, np.maximum.reduceat(over[links], first_hop))
        return Allocation((rate / excess)[view.job][view.coflow])

    def _contenders(self, view: FabricView) -> Floats:
        """Return the contenders for each link: jobs for ports, flows for others. Shape (L,)."""
        ptr, links = view.paths
        flows = np.bincount(links, minlength=len(view.capacity))
        found = flows.astype(np.float64)
        jobs = self._jobs_on(view)
        begins, ends = links[ptr[:-1]], links[ptr[1:] - 1]
        # A link that is a port of two servers counts the jobs of the busier one.
        ports = np.zeros(len(found))
        for link, host in ((begins, view.src), (ends, view.dst)):
            is_port = (np.bincount(link, minlength=len(flows)) == flows)[link]
            port = link[is_port]
            ports[port] = np.maximum(ports[port], jobs[host[is_port]])
        return np.where(ports > 0, ports, found)

    def _jobs_on(self, view: FabricView) -> Ints:
        """Return the number of jobs that count on each host (n_s). Shape (hosts,)."""
        sending = view.job[view.coflow]
        job, host = [sending, sending], [view.src, view.dst]
        if self.sees_running:
            running = view.running()
            several = np.bincount(running.job)[running.job] > 1
            # Sending jobs always count, even those with loopback flows only.
            job.append(running.job[several])
            host.append(running.host[several])
        hosts = 1 + max(int(each.max(initial=0)) for each in host)
        # Pairs (job, host) are coded as one number and sorted, which is much faster than np.unique.
        pairs = np.sort(np.concatenate(job) * hosts + np.concatenate(host))
        return np.bincount(pairs[np.diff(pairs, prepend=-1) > 0] % hosts, minlength=hosts)
