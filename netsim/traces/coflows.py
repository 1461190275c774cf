"""Explicit instances that list coflows: connected coflows become the stages of one job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from netsim.traces.checked import Checker
from netsim.traces.problems import POSITIVE, Rule
from netsim.workload import Flows, JobSpec, Stage

_OPTIONAL = ("arrival_s", "weight", "deadline_s", "overhead_s", "starts_after", "finishes_before",
             "job")


class _Coflow(NamedTuple):
    """An entry of the list ``coflows``, with its JSON path `where`."""

    where: str
    id: int
    arrival_s: float
    weight: float
    deadline_s: float | None
    overhead_s: float | None
    flows: Flows
    starts_after: tuple[int, ...]
    finishes_before: tuple[int, ...]
    job: int | None


def jobs_of_coflows(check: Checker, value: object) -> list[JobSpec]:
    """Make jobs of the list ``coflows``; see `netsim.traces.instances.read_instances`.

    Jobs are in the order of their first coflow in the file; some are missing if `check` has found
    problems.
    """
    entries = check.items(value, "coflows", empty=False)
    read = [_coflow(check, entry, f"coflows[{k}]") for k, entry in enumerate(entries)]
    coflows = [coflow for coflow in read if coflow is not None]
    if len(coflows) == len(entries):
        _check_ids(check, coflows)
    if check.problems:
        return []
    taken = {coflow.job for coflow in coflows if coflow.job is not None}
    jobs = [_job_of(check, group, taken) for group in _groups(coflows)]
    return [job for job in jobs if job is not None]


def _coflow(check: Checker, value: object, where: str) -> _Coflow | None:
    coflow = check.table(value, where, ("id", "flows"), _OPTIONAL)
    if coflow is None:
        return None
    return _Coflow(
        where,
        check.whole(coflow["id"], f"{where}.id"),
        check.number(coflow.get("arrival_s", 0.0), f"{where}.arrival_s", Rule()),
        check.number(coflow.get("weight", 1.0), f"{where}.weight", POSITIVE),
        check.optional(coflow, "deadline_s", where, POSITIVE),
        check.optional(coflow, "overhead_s", where, Rule(most=1e15)),
        check.flows(coflow["flows"], f"{where}.flows"),
        _ids(check, coflow.get("starts_after", []), f"{where}.starts_after"),
        _ids(check, coflow.get("finishes_before", []), f"{where}.finishes_before"),
        check.whole(coflow["job"], f"{where}.job") if "job" in coflow else None,
    )


def _ids(check: Checker, value: object, where: str) -> tuple[int, ...]:
    entries = check.items(value, where)
    return tuple(check.whole(entry, f"{where}[{k}]") for k, entry in enumerate(entries))


def _check_ids(check: Checker, coflows: Sequence[_Coflow]) -> None:
    """Report duplicate ids, and references to coflows that do not exist."""
    first: dict[int, _Coflow] = {}
    for coflow in coflows:
        if coflow.id in first:
            other = first[coflow.id].where
            check.refuse(f"{coflow.where}.id", f": {coflow.id} is the id of {other} already")
        first.setdefault(coflow.id, coflow)
    for coflow in coflows:
        for key in ("starts_after", "finishes_before"):
            for k, parent in enumerate(getattr(coflow, key)):
                if parent not in first:
                    check.refuse(f"{coflow.where}.{key}[{k}]", f": no coflow has the id {parent}")


def _groups(coflows: Sequence[_Coflow]) -> list[list[_Coflow]]:
    """Group coflows that name the same job or depend on each other, by union-find.

    Groups, and the coflows of each, are in the order of the file.
    """
    leader = list(range(len(coflows)))

    def find(k: int) -> int:
        while leader[k] != k:
            leader[k] = leader[leader[k]]
            k = leader[k]
        return k

    position = {coflow.id: k for k, coflow in enumerate(coflows)}
    first_of_job: dict[int, int] = {}
    for k, coflow in enumerate(coflows):
        others = [position[other] for other in coflow.starts_after + coflow.finishes_before]
        if coflow.job is not None:
            others.append(first_of_job.setdefault(coflow.job, k))
        for other in others:
            low, high = sorted((find(k), find(other)))
            leader[high] = low
    groups: dict[int, list[_Coflow]] = {}
    for k, coflow in enumerate(coflows):
        groups.setdefault(find(k), []).append(coflow)
    return list(groups.values())


def _job_of(check: Checker, group: Sequence[_Coflow], taken: set[int]) -> JobSpec | None:
    # `taken` holds the ids that some coflow names as its job.
    job_id = _job_id(check, group, taken)
    if job_id is None:
        return None
    arrival_s = min(coflow.arrival_s for coflow in group)
    stages = [
        Stage(
            str(coflow.id),
            coflow.flows,
            after=tuple(map(str, coflow.starts_after)),
            finishes_before=tuple(map(str, coflow.finishes_before)),
            release_s=coflow.arrival_s - arrival_s,
            weight=coflow.weight,
            coflow_id=coflow.id,
            deadline_s=coflow.deadline_s,
            overhead_s=coflow.overhead_s,
        )
        for coflow in group
    ]
    return check.job(group[0].where, job_id, arrival_s, stages)


def _job_id(check: Checker, group: Sequence[_Coflow], taken: set[int]) -> int | None:
    """Find the job that a group of coflows names, or the smallest of their ids."""
    named = [coflow for coflow in group if coflow.job is not None]
    for coflow in named:
        if coflow.job != named[0].job:
            check.refuse(f"{coflow.where}.job", f": {coflow.job}, but it is connected to "
                                                f"{named[0].where} of job {named[0].job}")
            return None
    if named:
        return named[0].job
    smallest = min(group, key=lambda coflow: coflow.id)
    if smallest.id in taken:
        check.refuse(f"{smallest.where}.id", f": without a 'job' this is job {smallest.id}, "
                                             "which other coflows name as theirs")
        return None
    return smallest.id
