"""A lower bound on the total JCT on an edge-cloud: the LP bound of A_online's paper."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from netsim.edge.jobs import EdgeJob, EdgeWorkload
from netsim.edge.programme import CLOUD, Place, Work, least_cost
from netsim.edge.system import EdgeCloud, Kind
from netsim.plain import known_names
from netsim.units import Quantity, parse_seconds


@dataclass(frozen=True)
class LPBound:
    """A lower bound on the total JCT of some jobs.

    Attributes
    ----------
    lp_s : float
        The optimum of the linear programme, in seconds; a valid lower bound by itself.
    half_processing_s : float
        Half of the sum over jobs of p1, the training time of one chunk without exchanges; seconds.
    """

    lp_s: float
    half_processing_s: float

    @property
    def jct_s(self) -> float:
        """The tighter bound `lp_s` + `half_processing_s`; only valid without speed augmentation.

        In the LP, the cost of a job is the mean time at which its work begins. Its last chunk ends
        at least half a chunk's training time later (Appendix B of the paper).
        """
        return self.lp_s + self.half_processing_s

    def ratio_paper(self, jct_total_s: float) -> float:
        """Return the competitive ratio as the paper defines it: total JCT over `lp_s`."""
        return jct_total_s / self.lp_s if self.lp_s > 0 else math.inf

    def ratio(self, jct_total_s: float) -> float:
        """Return the ratio of a total JCT to the tighter bound, `jct_s`."""
        return jct_total_s / self.jct_s


@known_names
def lp_bound(system: EdgeCloud, jobs: EdgeWorkload | Iterable[EdgeJob], *,
             slot: Quantity = "1h", horizon: Quantity | None = None,
             time_limit: Quantity | None = None) -> LPBound:
    """Compute a lower bound on the total JCT of jobs under any scheduler.

    The bound comes from a relaxation: exchanges of gradients take no time (zeta = 1), chunks may be
    split and moved between workers, and storage and parameter servers (PSs) are unlimited. Time is
    divided into slots, and the work of a slot counts as done at its beginning.

    Parameters
    ----------
    system : EdgeCloud
    jobs : EdgeWorkload or iterable of EdgeJob
    slot : quantity
        Length of a slot. A shorter slot gives a tighter bound and a larger programme: there is a
        variable for each job, each server with workers of its type, and each slot until the job's
        data is in the cloud.
    horizon : quantity, optional
        Time by which all work must be done, rounded up to slots; for systems without a cloud. By
        default, it is long enough for the optimum, and may be very long. With a shorter horizon,
        the programme is solved faster, but the result is not a lower bound if the horizon excludes
        the optimum.
    time_limit : quantity, optional
        Time after which the solver is stopped.

    Returns
    -------
    LPBound

    Raises
    ------
    MissingExtraError
        If SciPy is not installed (extra ``ilp``).
    InputError
        If jobs cannot be trained at all or within the horizon, or an argument is invalid.
    NetsimError
        If the time limit is reached, or the solver fails.

    Examples
    --------
    Two jobs on one worker, whose data takes one slot to upload; the shorter job goes first.

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
    # Jobs of different worker types do not compete, so each type is a programme of its own.
    works: dict[Kind, list[Work]] = {}
    for job in workload:
        works.setdefault(job.worker_type, []).append(_work(job, system, slot_s))
    half_s = math.fsum(job.p1_s for job in workload) / 2
    until = None if limit_s is None else time.monotonic() + limit_s
    lp = [least_cost(of_type, last, until) for of_type in works.values()]
    return LPBound(math.fsum(lp) * slot_s, half_s)


def _work(job: EdgeJob, system: EdgeCloud, slot_s: float) -> Work:
    """Convert a job to units of slots; places are the servers of its worker type, and the cloud."""
    servers, workers = np.unique(system.server_of[system.of_type(job.worker_type)],
                                 return_counts=True)
    delays = job.delays(system.servers)
    places = [Place(server, count, (job.arrival_s + float(delays[server])) / slot_s)
              for server, count in zip(servers.tolist(), workers.tolist(), strict=True)]
    if system.cloud:
        places.append(Place(CLOUD, 0, (job.arrival_s + job.cloud_upload_s) / slot_s))
    return Work(job.arrival_s / slot_s, job.chunks, job.p1_s / slot_s, tuple(places))
