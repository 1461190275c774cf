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

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Sent(NamedTuple):
    """The flows of some coflows, coflow after coflow."""

    src: Ints
    dst: Ints
    nbytes: Floats
    counts: Ints  #: the number of flows of each coflow
    key: Ints  #: the ECMP key of the first flow of each coflow


@dataclass(frozen=True, slots=True)
class SingleColumns:
    """Jobs of a single coflow, with the values of the jobs and their stages."""

    members: Ints  #: positions of the jobs in order of (arrival, id)
    arrival_s: Floats
    release_s: Floats
    compute_s: Floats  #: including the job's own computation
    weight: Floats
    deadline_s: Floats  #: after validity; inf for none
    overhead_s: Floats  #: NaN for that of the network
    flows: Ints  #: the number of flows of each job
    coflow_id: Ints  #: -1 for none
    stages: Sequence[str]
    sent: Callable[[Ints], Sent]  #: the flows of some jobs, given by indices into `members`
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
    """Make columns of the `members` of all jobs, those for which `is_single` holds.

    `jobs` are in order of (arrival, id); `place` returns the host of each rank of a job.
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
