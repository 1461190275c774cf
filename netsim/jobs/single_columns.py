"""The data of jobs with a single coflow, as columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.columns import Columns
from netsim.forking import same
from netsim.jobs.plan import ecmp_key, ecmp_keys
from netsim.stage import is_ranked
from netsim.workload import Flows, JobColumns, JobSpec, Stage

__all__ = ["Sent", "SingleColumns", "is_single", "of_columns", "of_specs"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Sent(NamedTuple):
    """The flows of some coflows, coflow after coflow.

    Attributes
    ----------
    src, dst, nbytes : ndarray, shape (flows,)
        Hosts, and sizes in bytes.
    counts, key : ndarray of int, shape (coflows,)
        Number of flows of each coflow, and the ECMP key of its first flow.
    """

    src: Ints
    dst: Ints
    nbytes: Floats
    counts: Ints
    key: Ints


@dataclass(frozen=True, slots=True)
class SingleColumns:
    """Jobs of a single coflow.

    Attributes
    ----------
    members : ndarray of int
        Positions of the jobs in order of (arrival, id).
    arrival_s, release_s, compute_s, weight, deadline_s, overhead_s : ndarray of float
        Values of the jobs and their stages. `compute_s` includes the job's own computation. A
        deadline of inf means none, and an overhead of NaN means that of the network.
    flows : ndarray of int
        Number of flows of each job.
    coflow_id : ndarray of int
        The ids that stages specify; -1 for none.
    stages : sequence of str
        Names of the stages.
    sent : callable
        Function that returns the flows of some of these jobs, given by indices into `members`.
    """

    members: Ints
    arrival_s: Floats
    release_s: Floats
    compute_s: Floats
    weight: Floats
    deadline_s: Floats
    overhead_s: Floats
    flows: Ints
    coflow_id: Ints
    stages: Sequence[str]
    sent: Callable[[Ints], Sent]
    __deepcopy__ = same


def is_single(job: JobSpec) -> bool:
    """Whether a job consists of a single coflow."""
    return (job.iterations == 1 and len(job.stages) == 1 and job.stages[0].flows is not None
            and not job.stages[0].steps and not is_ranked(job.stages))


def of_columns(jobs: JobColumns) -> SingleColumns:
    """Make columns of jobs that are stored as columns."""
    columns, count = jobs.columns, len(jobs)
    none, unknown = np.zeros(count), np.full(count, math.nan)
    return SingleColumns(np.arange(count), columns.arrival_s, none, none, columns.weight,
                         np.full(count, math.inf), unknown, columns.counts, columns.coflow_id,
                         [jobs.STAGE] * count, partial(_sent_of_columns, columns))


def _sent_of_columns(columns: Columns, which: Ints) -> Sent:
    flows = columns.flows_of(which)
    return Sent(columns.src[flows], columns.dst[flows], columns.nbytes[flows],
                columns.counts[which], ecmp_keys(columns.id[which], JobColumns.STAGE))


def of_specs(jobs: Sequence[JobSpec], members: Sequence[int],
             place: Callable[[JobSpec], Ints]) -> SingleColumns:
    """Make columns of jobs.

    Parameters
    ----------
    jobs : sequence of JobSpec
        All jobs of the workload, in order of (arrival, id).
    members : sequence of int
        Positions of the jobs for which `is_single` holds.
    place : callable
        Function that returns the host of each rank of a job.
    """
    specs = [jobs[k] for k in members]
    stages = [job.stages[0] for job in specs]
    return SingleColumns(
        np.array(members, np.int64), np.array([job.arrival_s for job in specs]),
        np.array([stage.release_s for stage in stages]),
        np.array([stage.compute_s + job.compute_s for job, stage
                  in zip(specs, stages, strict=True)]),
        np.array([job.weight * stage.weight for job, stage
                  in zip(specs, stages, strict=True)]),
        np.array([math.inf if stage.deadline_s is None else stage.deadline_s
                  for stage in stages]),
        np.array([math.nan if stage.overhead_s is None else stage.overhead_s
                  for stage in stages]),
        np.array([len(_flows(stage)) for stage in stages], np.int64),
        np.array([-1 if stage.coflow_id is None else stage.coflow_id for stage in stages],
                 np.int64),
        [stage.name for stage in stages], partial(_sent_of_specs, specs, place))


def _sent_of_specs(specs: Sequence[JobSpec], place: Callable[[JobSpec], Ints], which: Ints) -> Sent:
    chosen = [specs[k] for k in which.tolist()]
    stages = [job.stages[0] for job in chosen]
    flows = [_flows(stage) for stage in stages]
    counts = np.array([len(each) for each in flows], np.int64)
    hosts, first = _hosts(chosen, place)
    shift = np.repeat(first, counts)
    return Sent(hosts[np.concatenate([each.src for each in flows]) + shift],
                hosts[np.concatenate([each.dst for each in flows]) + shift],
                np.concatenate([each.nbytes for each in flows]), counts,
                np.array([ecmp_key(job.id, stage.name)
                          for job, stage in zip(chosen, stages, strict=True)], np.int64))


def _flows(stage: Stage) -> Flows:
    assert stage.flows is not None
    return stage.flows


def _hosts(jobs: Sequence[JobSpec], place: Callable[[JobSpec], Ints]) -> tuple[Ints, Ints]:
    """Concatenate the hosts of jobs; return them, and the position of each job's first.

    Jobs with the same tuple of hosts share them.
    """
    first: list[int] = []
    known: dict[int, int] = {}
    places: list[Ints] = []
    count = 0
    for job in jobs:
        at = known.get(id(job.hosts)) if job.hosts is not None else None
        if at is None:
            at = known[id(job.hosts)] = count
            places.append(place(job))
            count += len(places[-1])
        first.append(at)
    return np.concatenate(places), np.array(first, np.int64)
