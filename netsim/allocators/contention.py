"""Contention among ring-all-reduce jobs: the analytic model of SJF-BCO as an allocator.

Equation numbers are those of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, NamedTuple

import numpy as np

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.values import as_choice, as_number, as_share, convert, known_names, plain
from netsim.fabric.allocation import Allocation, Information
from netsim.fabric.allocator import Allocator
from netsim.fabric.running import JobHosts
from netsim.fabric.view import FabricView
from netsim.models.degradation import Degradation, Slowdown


class _Flows(NamedTuple):
    """Some flows of a view: their jobs, hosts, and links in compressed rows."""

    job: Ints
    src: Ints
    dst: Ints
    ptr: Ints
    links: Ints

    @classmethod
    def of(cls, view: FabricView, sends: Bools) -> _Flows:
        """Select the flows of the coflows that send."""
        ptr, links = view.paths
        kept, hops = sends[view.coflow], np.diff(ptr)
        return cls(view.job[view.coflow][kept], view.src[kept], view.dst[kept],
                   np.concatenate(([0], np.cumsum(hops[kept]))), links[np.repeat(kept, hops)])


@known_names
@dataclass(frozen=True)
class RingContention(Allocator):
    """Jobs slow each other down by the contention model of SJF-BCO (Eq. 6 to 8).

    With n jobs on a server and k = max(k_min, xi1 n), each job gets at most 1/f(alpha, k) of the
    server's port. All flows of a job have the same rate, the smallest that its links allow. The
    policy is not work-conserving: bandwidth lost to contention is not used.

    Parameters
    ----------
    alpha : float
        Cost of contention beyond equal sharing, an option of the degradation f; at least 0.
    xi1 : float
        Share of the jobs on a server that are assumed to contend; in (0, 1]. If `count` is
        ``"sending"``, it should be 1, as the fabric simulates which jobs send at a time.
    k_min : float
        Lower limit on the contention k; at least 0. f must be positive.
    count : {"sending", "running"}
        Which jobs are counted on a server: those with unfinished flows from or to it; or, as in
        Eq. 6, all jobs that run on it and on another server, whether they compute or send.
    degradation : str, mapping or callable
        As for `netsim.cluster.contention.Contention`.

    Notes
    -----
    A link is a port if all flows that cross it begin, or end, at the same server. On other links,
    flows are counted instead of jobs. In a ring, a job has one flow per port and direction, so
    that with xi1 = 1 and f(alpha, n) >= n all rates fit (see `docs/systems/sjf-bco.md`). With a
    smaller xi1 or f, or with jobs that are not rings, they may not. The rate of each job is then
    divided by the worst overload among its links, after which they fit.
    """

    alpha: float = 0.0
    xi1: float = 1.0
    k_min: float = 1.0
    count: str = "sending"
    degradation: Degradation = "linear"

    information: ClassVar[Information] = "agnostic"
    leftover = "none"
    # If a flow of a job needs a failed link, none of the job's flows moves.
    stall_free = False

    def __post_init__(self) -> None:
        convert(self, count=partial(as_choice, choices=("running", "sending")),
                alpha=partial(as_number, least=0), xi1=as_share,
                k_min=partial(as_number, least=0), degradation=plain)
        self.slowdown  # noqa: B018  # which checks its options

    @cached_property
    def slowdown(self) -> Slowdown:
        """f, by the number of contending jobs (Eq. 7 and 8)."""
        return Slowdown(self.alpha, self.xi1, self.k_min, self.degradation)

    @property
    def sees_running(self) -> bool:
        """Whether running jobs are counted."""
        return self.count == "running"

    def allocate(self, view: FabricView) -> Allocation:
        """Return the rates, equal for all flows of a job; see `Allocator.allocate`."""
        running = view.running() if self.sees_running else None
        return Allocation(contended_rates(view, self.slowdown, np.ones(len(view), np.bool_),
                                          running))


def contended_rates(view: FabricView, slowdown: Slowdown, sends: Bools,
                    running: JobHosts | None = None) -> Floats:
    """Compute the rates at which some coflows contend, by flow; 0 for those that do not send.

    Jobs that send are counted, and those that run, if these are given.
    """
    flows, capacity = _Flows.of(view, sends), view.capacity
    rate = np.full(int(view.job.max()) + 1, np.inf)
    excess = np.ones(len(rate))
    if len(flows.job):
        contenders = _contenders(flows, running, len(capacity))
        limit = capacity[flows.links] / slowdown(contenders[flows.links])
        np.minimum.at(rate, flows.job, np.minimum.reduceat(limit, flows.ptr[:-1]))
        load = np.bincount(flows.links, np.repeat(rate[flows.job], np.diff(flows.ptr)),
                           len(capacity))
        over = np.divide(load, capacity, out=np.zeros(len(capacity)), where=capacity > 0)
        np.maximum.at(excess, flows.job, np.maximum.reduceat(over[flows.links], flows.ptr[:-1]))
    return np.where(sends[view.coflow], (rate / excess)[view.job][view.coflow], 0.0)


def _contenders(flows: _Flows, running: JobHosts | None, links: int) -> Ints:
    """Count the contenders for each link: jobs for ports, flows for others."""
    found = np.bincount(flows.links, minlength=links)
    jobs = _jobs_on(flows, running)
    begins, ends = flows.links[flows.ptr[:-1]], flows.links[flows.ptr[1:] - 1]
    # A link that is a port of two servers counts the jobs of the busier one.
    ports = np.zeros(links, np.int64)
    for link, host in ((begins, flows.src), (ends, flows.dst)):
        is_port = (np.bincount(link, minlength=links) == found)[link]
        port = link[is_port]
        ports[port] = np.maximum(ports[port], jobs[host[is_port]])
    return np.where(ports > 0, ports, found)


def _jobs_on(flows: _Flows, running: JobHosts | None) -> Ints:
    """The number of jobs that count on each host (n_s)."""
    job, host = [flows.job, flows.job], [flows.src, flows.dst]
    if running is not None:
        several = np.bincount(running.job)[running.job] > 1
        # Sending jobs always count, even those with loopback flows only.
        job.append(running.job[several])
        host.append(running.host[several])
    hosts = 1 + max(int(each.max(initial=0)) for each in host)
    # Pairs (job, host) are coded as one number and sorted, which is much faster than np.unique.
    pairs = np.sort(np.concatenate(job) * hosts + np.concatenate(host))
    return np.bincount(pairs[np.diff(pairs, prepend=-1) > 0] % hosts, minlength=hosts)
