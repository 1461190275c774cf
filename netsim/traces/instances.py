"""Explicit instances: hand-written jobs or coflows in JSON that list every flow.

Coflows that wait for each other become the stages of one job.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from netsim.base.arrays import Ints
from netsim.base.files import stem_of
from netsim.base.json_tree import Checker, parse_object
from netsim.base.limits import most, raised_by
from netsim.base.reading import POSITIVE, NumberRange, TraceProblemsError, read_text
from netsim.base.values import MOST_ID
from netsim.errors import InputError
from netsim.traces.files import connected, kind_of_json
from netsim.workload import Flows, JobSpec, Stage, Workload


# --- checks --------------------------------------------------------------------------------
class InstanceChecker(Checker):
    """Validates an instance, whose flows are between hosts.

    With `by_name`, some hosts are given by name: ranks of jobs are then the hosts of the file in
    the order in which they occur. Otherwise rank k is on host k.
    """

    def __init__(self, document: dict[str, Any], by_name: bool = False) -> None:
        super().__init__()
        self._places: dict[str | int, int] | None = {} if by_name else None
        self.found_name = False  #: a host is given by name: read again `by_name`
        # Limited so that a typo in one src does not exhaust the memory.
        self._hosts = limit = most("ports")
        hosts = self.whole(document.get("hosts", limit), "hosts", 1, limit, raised_by("ports"))
        self._hint = raised_by("ports") if hosts == limit else ""
        if not self.problems:
            self._hosts = hosts

    def flows(self, value: object, where: str) -> Flows:
        """Read the flows of a coflow, ``[{src, dst, bytes}, ...]``."""
        rows: list[tuple[int, int, float]] = []
        for k, entry in enumerate(self.items(value, where)):
            at = f"{where}[{k}]"
            flow = self.table(entry, at, ("src", "dst", "bytes"))
            if flow is not None:
                rows.append((self.host(flow["src"], f"{at}.src"),
                             self.host(flow["dst"], f"{at}.dst"),
                             self.number(flow["bytes"], f"{at}.bytes", NumberRange())))
        return Flows.of(rows)

    def host(self, value: object, where: str) -> int:
        """Check that a value is a host; return its rank."""
        if isinstance(value, str):
            self.found_name = True
            host: str | int = self.text(value, where)
        else:
            host = self.whole(value, where, 0, self._hosts - 1, self._hint)
        if self._places is not None:
            return self._places.setdefault(host, len(self._places))
        return 0 if isinstance(host, str) else host

    def job(
        self,
        where: str,
        job_id: int,
        arrival_s: float,
        stages: Sequence[Stage],
        **more: Any,
    ) -> JobSpec | None:
        """Make a job whose ranks run on the hosts of the file; None if `JobSpec` rejects it.

        `more` are other arguments of `JobSpec`, which finds problems of the graph of stages:
        unknown parents, cycles, duplicate names.
        """
        ranks = max([stage.flows.ranks for stage in stages if stage.flows is not None]
                    + [max(stage.ranks) + 1 for stage in stages if stage.ranks], default=0)
        hosts = range(ranks) if self._places is None else islice(self._places, ranks)
        try:
            return JobSpec(job_id, arrival_s, stages=tuple(stages), hosts=tuple(hosts), **more)
        except InputError as error:
            self.refuse(where, f": {error}")
            return None


# --- coflows -------------------------------------------------------------------------------

_OPTIONAL = ("arrival_s", "weight", "deadline_s", "overhead_s", "starts_after", "finishes_before",
             "job", "continues")


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
    continues: bool


def jobs_of_coflows(check: InstanceChecker, value: object) -> list[JobSpec]:
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


def _coflow(check: InstanceChecker, value: object, where: str) -> _Coflow | None:
    coflow = check.table(value, where, ("id", "flows"), _OPTIONAL)
    if coflow is None:
        return None
    return _Coflow(
        where,
        check.whole(coflow["id"], f"{where}.id"),
        check.number(coflow.get("arrival_s", 0.0), f"{where}.arrival_s", NumberRange()),
        check.number(coflow.get("weight", 1.0), f"{where}.weight", POSITIVE),
        check.optional(coflow, "deadline_s", where, POSITIVE),
        check.optional(coflow, "overhead_s", where, NumberRange(most=1e15)),
        check.flows(coflow["flows"], f"{where}.flows"),
        _ids(check, coflow.get("starts_after", []), f"{where}.starts_after"),
        _ids(check, coflow.get("finishes_before", []), f"{where}.finishes_before"),
        check.whole(coflow["job"], f"{where}.job") if "job" in coflow else None,
        check.flag(coflow.get("continues", False), f"{where}.continues"),
    )


def _ids(check: InstanceChecker, value: object, where: str) -> tuple[int, ...]:
    entries = check.items(value, where)
    return tuple(check.whole(entry, f"{where}[{k}]") for k, entry in enumerate(entries))


def _check_ids(check: InstanceChecker, coflows: Sequence[_Coflow]) -> None:
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
    """Group coflows that name the same job or depend on each other, in the order of the file."""
    position = {coflow.id: k for k, coflow in enumerate(coflows)}
    first_of_job: dict[int, int] = {}
    pairs: list[tuple[int, int]] = []
    for k, coflow in enumerate(coflows):
        pairs += [(k, position[other]) for other in coflow.starts_after + coflow.finishes_before]
        if coflow.job is not None:
            pairs.append((k, first_of_job.setdefault(coflow.job, k)))
    return [[coflows[k] for k in group] for group in connected(len(coflows), pairs)]


def _job_of(check: InstanceChecker, group: Sequence[_Coflow], taken: set[int]) -> JobSpec | None:
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
            continues=coflow.continues,
        )
        for coflow in group
    ]
    return check.job(group[0].where, job_id, arrival_s, stages)


def _job_id(check: InstanceChecker, group: Sequence[_Coflow], taken: set[int]) -> int | None:
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


# --- jobs ----------------------------------------------------------------------------------

_JOB = ("arrival_s", "coflows", "stages", "iterations", "compute_s", "name", "weight", "group")

_STAGE = ("flows", "after", "compute_s", "finishes_before", "deadline_s", "overhead_s", "steps",
          "computes_on", "stream", "after_previous", "continues")


def read_instances(path: str | Path, *, seed: int = 0) -> Workload:
    """Read explicit jobs or coflows, flow by flow (JSON), in either of two forms.

    ``jobs: [{arrival_s, coflows: [[{src, dst, bytes}, ...], ...]}]``
        Each job is a chain of coflows, named ``"c0"``, ``"c1"``, ...; optionally with
        ``iterations``, ``name``, ``weight``, ``group``, and ``compute_s``, a list of the seconds of
        computation before each coflow. A job that is a DAG does not have ``coflows``, but
        ``stages: [{name, flows, after, compute_s, finishes_before, deadline_s, overhead_s,
        steps, computes_on, stream, after_previous, continues}]``. A job's id is its position in the
        file.
    ``coflows: [{id, arrival_s, weight, deadline_s, overhead_s, flows, starts_after,
    finishes_before, job, continues}]``
        Coflows that name the same ``job``, or that ``starts_after`` or ``finishes_before``
        connects, are the stages of one job. The job's id is the value of ``job``; without it, the
        smallest id of the job's coflows.

    A ``deadline_s`` counts from the instant at which the coflow becomes valid; without it, the
    coflow has no deadline. ``overhead_s`` are the seconds of software before a coflow's first byte,
    by default those of the network. A coflow that ``continues`` (true) a collective needs no launch
    of its own. One that merges the steps of a collective lists them in ``steps: [{flows, times}]``:
    for each kind of step, its flows, by their index in the stage, and the number of such steps; see
    `netsim.Stage`. ``computes_on`` lists the hosts whose ranks
    compute, taking turns on the ``stream``; ``after_previous`` names stages of the previous
    iteration.

    Flows are between hosts, given by number, or by name on the network that the jobs will run on.
    Of the other keys of the file, this reader uses ``hosts``, the number of hosts, which limits
    ``src`` and ``dst``, and ``name``, the workload's name.

    Parameters
    ----------
    path : path-like
        The file.
    seed : int
        The workload's seed; nothing is drawn here.

    Raises
    ------
    TraceError
        If the file cannot be read.
    TraceProblemsError
        If the file's contents are invalid, with the line and the JSON path.
    """
    text = read_text(path)
    document = parse_object(text, path)
    check = InstanceChecker(document)
    jobs = _jobs(check, document)
    if check.found_name:
        check = InstanceChecker(document, by_name=True)
        jobs = _jobs(check, document)
    name = check.text(document.get("name", stem_of(path)), "name")
    if check.problems:
        raise TraceProblemsError(check.problems_in(text), path)
    return Workload(tuple(jobs), name, seed=seed)


def _jobs(check: InstanceChecker, document: dict[str, Any]) -> list[JobSpec]:
    if ("jobs" in document) == ("coflows" in document) or "profiles" in document:
        check.refuse("the file",
                     f" must hold either 'jobs' or 'coflows'{kind_of_json(document)}")
        return []
    if "coflows" in document:
        return jobs_of_coflows(check, document["coflows"])
    entries = check.items(document["jobs"], "jobs", empty=False)
    jobs = [_job(check, entry, f"jobs[{k}]", k) for k, entry in enumerate(entries)]
    return [job for job in jobs if job is not None]


def _job(check: InstanceChecker, value: object, where: str, job_id: int) -> JobSpec | None:
    known = len(check.problems)
    job = check.table(value, where, (), _JOB)
    if job is None:
        return None
    arrival_s = check.number(job.get("arrival_s", 0.0), f"{where}.arrival_s", NumberRange())
    iterations = check.whole(job.get("iterations", 1), f"{where}.iterations", 1)
    name = check.text(job.get("name", ""), f"{where}.name")
    weight = check.number(job.get("weight", 1.0), f"{where}.weight", POSITIVE)
    group = job.get("group")
    if not isinstance(group, str):
        group = None if group is None else check.whole(group, f"{where}.group", most=MOST_ID)
    stages = _stages(check, job, where)
    if len(check.problems) > known:
        return None
    return check.job(where, job_id, arrival_s, stages, iterations=iterations, name=name,
                     weight=weight, group=group)


def _stages(check: InstanceChecker, job: dict[str, Any], where: str) -> list[Stage]:
    if ("coflows" in job) == ("stages" in job):
        check.refuse(where, ": give either 'coflows' or 'stages'")
        return []
    if "coflows" in job:
        return _chain(check, job, where)
    if "compute_s" in job:
        check.refuse(f"{where}.compute_s", ": where a job has 'stages', give it in each")
    entries = check.items(job["stages"], f"{where}.stages", empty=False)
    stages = [_stage(check, entry, f"{where}.stages[{k}]") for k, entry in enumerate(entries)]
    return [stage for stage in stages if stage is not None]


def _chain(check: InstanceChecker, job: dict[str, Any], where: str) -> list[Stage]:
    coflows = check.items(job["coflows"], f"{where}.coflows", empty=False)
    compute = check.items(job.get("compute_s", [0.0] * len(coflows)), f"{where}.compute_s")
    if len(compute) != len(coflows):
        check.refuse(f"{where}.compute_s", f" must have one entry for each of the {len(coflows)} "
                                           f"coflows, not {len(compute)}")
        compute = [0.0] * len(coflows)
    return [
        Stage(
            f"c{k}",
            check.flows(flows, f"{where}.coflows[{k}]"),
            check.number(seconds, f"{where}.compute_s[{k}]", NumberRange()),
            after=(f"c{k - 1}",) if k else (),
        )
        for k, (flows, seconds) in enumerate(zip(coflows, compute, strict=True))
    ]


def _stage(check: InstanceChecker, value: object, where: str) -> Stage | None:
    stage = check.table(value, where, ("name",), _STAGE)
    if stage is None:
        return None
    return Stage(
        check.text(stage["name"], f"{where}.name"),
        check.flows(stage["flows"], f"{where}.flows") if "flows" in stage else None,
        check.number(stage.get("compute_s", 0.0), f"{where}.compute_s", NumberRange()),
        _names(check, stage.get("after", []), f"{where}.after"),
        _names(check, stage.get("finishes_before", []), f"{where}.finishes_before"),
        deadline_s=check.optional(stage, "deadline_s", where, POSITIVE),
        steps=_steps(check, stage, where),
        overhead_s=check.optional(stage, "overhead_s", where, NumberRange(most=1e15)),
        ranks=_ranks(check, stage, where),
        stream=check.text(stage.get("stream", "compute"), f"{where}.stream"),
        after_previous=_names(check, stage.get("after_previous", []), f"{where}.after_previous"),
        continues=check.flag(stage.get("continues", False), f"{where}.continues"),
    )


def _ranks(check: InstanceChecker, stage: dict[str, Any], where: str) -> list[int]:
    """Read the hosts whose ranks compute, and return these ranks."""
    where = f"{where}.computes_on"
    ranks = [check.host(value, f"{where}[{k}]")
             for k, value in enumerate(check.items(stage.get("computes_on", []), where))]
    for k, rank in enumerate(ranks):
        if rank in ranks[:k] and not check.problems:
            check.refuse(f"{where}[{k}]", f" is there twice: {stage['computes_on'][k]!r}")
    return list(dict.fromkeys(ranks))


def _steps(check: InstanceChecker, stage: dict[str, Any], where: str
           ) -> tuple[tuple[Ints, int], ...]:
    """Read the steps of a collective that a coflow merges."""
    flows, found = stage.get("flows"), []
    last = len(flows) - 1 if isinstance(flows, list) else -1
    for k, entry in enumerate(check.items(stage.get("steps", []), f"{where}.steps")):
        at = f"{where}.steps[{k}]"
        step = check.table(entry, at, ("flows", "times"))
        if step is not None:
            places = check.items(step["flows"], f"{at}.flows", empty=False)
            found.append((np.array([check.whole(place, f"{at}.flows[{n}]", most=last)
                                    for n, place in enumerate(places)], np.int64),
                          check.whole(step["times"], f"{at}.times", least=1)))
    return tuple(found)


def _names(check: InstanceChecker, value: object, where: str) -> tuple[str, ...]:
    entries = check.items(value, where)
    return tuple(check.text(entry, f"{where}[{k}]") for k, entry in enumerate(entries))
