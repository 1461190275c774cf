"""What a run on a cluster is given, checked before anything runs: policies, and jobs they suit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from netsim.cluster.cluster import Cluster, check_size
from netsim.cluster.contention import Contention, check_rates
from netsim.cluster.mapped import model_of
from netsim.cluster.placed import ring_of
from netsim.cluster.placement import Placement, make_placement
from netsim.cluster.registry import SCHEDULERS, chooses_gpus, make_execution, make_scheduler
from netsim.errors import InputError
from netsim.model import JobSpec, Workload
from netsim.parallel import ParallelModel
from netsim.parallel.mapping import can_hold
from netsim.plugins import described

__all__ = ["NOTHING_TO_SHARE", "as_rings", "check_jobs", "policies_of"]

#: Why allocators are not to be compared where jobs run by a model.
NOTHING_TO_SHARE = ('allocators share out the network, which jobs on a cluster use where '
                    'execution = "fabric"')


def policies_of(scheduler: Any = None, placement: Any = None, execution: Any = None,
                seed: int = 0) -> tuple[Any, Placement, str, Contention]:
    """Return the scheduler, the placement, how jobs run, and the contention model.

    Raises
    ------
    InputError
        If there is no such policy, or a placement for a scheduler that does not ask for it.
    """
    decider = make_scheduler("fifo" if scheduler is None else scheduler)
    if placement is not None and chooses_gpus(decider):
        raise InputError(
            f"scheduler {described(decider, SCHEDULERS)['name']!r} chooses GPUs itself; a "
            "placement is for those that leave it to that, such as 'fifo' and 'sjf'")
    usual = getattr(decider, "placement", "first-fit")
    placed = make_placement(usual if placement is None else placement, seed)
    return (decider, placed,
            *make_execution("rar-contention" if execution is None else execution))


def check_jobs(workload: Workload, cluster: Cluster) -> None:
    """Refuse jobs that are too large for a cluster, or cannot be split among its servers.

    Raises
    ------
    InputError
        Naming the first one.
    """
    held: set[ParallelModel] = set()
    for job in workload:
        check_size(job, cluster)
        if job.model is None or job.model in held:
            continue
        held.add(job.model)
        if not can_hold(job.model, cluster.gpus.tolist()):
            raise InputError(f"job {job.id}: slices of a replica of model {job.model.name!r} must "
                             "be on one server, and the servers of cluster "
                             f"{cluster.name!r} cannot hold all of them")


def as_rings(workload: Workload, cluster: Cluster, scheduler: Any, execution: str) -> Workload:
    """Return a workload with its jobs as rings, where only rings can run.

    They alone can by the contention model, and under schedulers that plan by it; and they or models
    by the time of an iteration.

    Parameters
    ----------
    workload : Workload
    cluster : Cluster
    scheduler : object
        As `policies_of` returns it.
    execution : str
        A name.

    Raises
    ------
    InputError
        Naming the first job that is none, see `netsim.cluster.placed.ring_of`; or if GPUs of one
        server exchange more slowly than those of two, which rings do not allow for.
    """
    if execution == "asrpt":
        for job in workload:
            model_of(job)
    elif any(ring_of(job) is not None for job in workload):
        check_rates(cluster)
    if execution == "rar-contention":
        where = f"execution {execution!r} has"
    elif hasattr(scheduler, "plan"):
        where = f"scheduler {described(scheduler, SCHEDULERS)['name']!r} plans for"
    else:
        return workload
    rings = []
    for job in workload:
        if (ring := ring_of(job)) is None:
            raise InputError(
                f"job {job.id} is no ring: {where} jobs of the pattern 'ring-all-reduce', or of a "
                f"model of one stage that all-reduces in a ring, not {_kind(job)}; others can run "
                "with execution 'fabric', under schedulers that do not plan, such as 'fifo'")
        rings.append(ring)
    return workload if rings == list(workload) else replace(workload, jobs=rings)


def _kind(job: JobSpec) -> str:
    """Return in words what a job sends."""
    if job.stages:
        return "of explicit stages"
    return f"{job.pattern!r}" if job.model is None else f"the model {job.model.name!r}"
