"""How short the JCTs of an edge-cloud system can be at best: the LP bound of A_online's paper."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from netsim.edge.jobs import EdgeJob, EdgeWorkload
from netsim.edge.programme import CLOUD, Place, Work, least_cost
from netsim.edge.system import EdgeCloud, Kind
from netsim.units import Quantity, parse_seconds

__all__ = ["LPBound", "lp_bound"]


@dataclass(frozen=True)
class LPBound:
    """What the total JCT of some jobs cannot be below.

    Attributes
    ----------
    lp_s : float
        The optimum of the linear programme, in seconds: a lower bound.
    half_processing_s : float
        Half of the sum of p1: what a chunk takes of a worker next to its PS, of each job once.
    """

    lp_s: float
    half_processing_s: float

    @property
    def jct_s(self) -> float:
        """The bound that is tighter, and valid as well without speed augmentation.

        The LP has a job's work finish, on average, where a slot begins, not where its last chunk
        ends: that is at least half a chunk later (Appendix B of the paper).
        """
        return self.lp_s + self.half_processing_s

    def ratio_paper(self, jct_total_s: float) -> float:
        """Return the competitive ratio as the paper has it: total JCT over the LP's optimum."""
        return jct_total_s / self.lp_s if self.lp_s > 0 else math.inf

    def ratio(self, jct_total_s: float) -> float:
        """Return the total JCT over `jct_s`."""
        return jct_total_s / self.jct_s


def lp_bound(system: EdgeCloud, jobs: EdgeWorkload | Iterable[EdgeJob], *,
             slot: Quantity = "1h", horizon: Quantity | None = None,
             time_limit: Quantity | None = None) -> LPBound:
    """Return a lower bound on the total JCT of jobs under any scheduler.

    All exchanges of gradients are left out (zeta = 1), chunks may be split and moved, and time is
    in slots: work in a slot counts from where that begins. Storage and PSs have no limits.

    Parameters
    ----------
    system : EdgeCloud
    jobs : EdgeWorkload or iterable of EdgeJob
    slot : quantity
        The shorter, the tighter the bound, and the larger the programme: per job, server with its
        type of worker and slot, up to where the cloud has its data, a variable.
    horizon : quantity, optional
        Where there is no cloud: work must be done by then, rounded up to slots. One that is enough
        for the optimum if not given; it can be so large that one that is given is far quicker, but
        a shorter one gives no lower bound if it cuts the optimum off.
    time_limit : quantity, optional
        Give up after so long.

    Returns
    -------
    LPBound

    Raises
    ------
    MissingExtraError
        If SciPy is not installed (extra ``ilp``).
    InputError
        If jobs cannot be trained at all or within the horizon, or an argument is not allowed.
    NetsimError
        If the time was up, or the solver fails.

    Examples
    --------
    Two jobs on one worker, a slot from there: the shorter one first.

    >>> jobs = [EdgeJob(id=k, compute_s=seconds, upload_s="1s")
    ...         for k, seconds in enumerate([2, 4])]
    >>> bound = lp_bound(EdgeCloud([[0]], cloud=False), jobs, slot="1s")
    >>> round(bound.lp_s, 6), round(bound.jct_s, 6)
    (6.0, 9.0)
    """
    workload = jobs if isinstance(jobs, EdgeWorkload) else EdgeWorkload(tuple(jobs))
    slot_s = parse_seconds(slot, "slot", strict=True)
    limit_s = None if time_limit is None else parse_seconds(time_limit, "time_limit", strict=True)
    workload.check_on(system)
    last = None if horizon is None else math.ceil(
        parse_seconds(horizon, "horizon", strict=True) / slot_s)
    # Jobs of different types do not meet: each type is a programme by itself.
    works: dict[Kind, list[Work]] = {}
    for job in workload:
        works.setdefault(job.worker_type, []).append(_work(job, system, slot_s))
    half_s = math.fsum(job.p1_s for job in workload) / 2
    until = None if limit_s is None else time.monotonic() + limit_s
    lp = [least_cost(of_type, last, until) for of_type in works.values()]
    return LPBound(math.fsum(lp) * slot_s, half_s)


def _work(job: EdgeJob, system: EdgeCloud, slot_s: float) -> Work:
    """Return a job in slots, with the servers that have workers of its type, and the cloud."""
    servers, workers = np.unique(system.server_of[system.of_type(job.worker_type)],
                                 return_counts=True)
    delays = job.delays(system.servers)
    places = [Place(server, count, (job.arrival_s + float(delays[server])) / slot_s)
              for server, count in zip(servers.tolist(), workers.tolist(), strict=True)]
    if system.cloud:
        places.append(Place(CLOUD, 0, (job.arrival_s + job.cloud_upload_s) / slot_s))
    return Work(job.arrival_s / slot_s, job.chunks, job.p1_s / slot_s, tuple(places))
