"""What goes with what: arguments and targets, policies, jobs and clusters; checked before a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from netsim.cluster.cluster import Cluster, check_size
from netsim.cluster.contention import Contention, check_rates
from netsim.cluster.context import RunContext
from netsim.cluster.placed import ring_of
from netsim.cluster.slices import is_sliced
from netsim.engine.registry import make_execution
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.patterns import model_coflows
from netsim.models import ParallelModel
from netsim.models.mapping import can_hold
from netsim.placements.mapped import check_models
from netsim.placements.placement import Placement
from netsim.placements.registry import PLACEMENTS, make_placement
from netsim.plugins import Registry
from netsim.schedulers.registry import SCHEDULERS, chooses_gpus, make_scheduler
from netsim.workload import JobSpec, Workload

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CASES", "NEEDS", "NOTHING_TO_SHARE", "NOT_FOR", "REASONS", "Policies", "as_rings",
           "check_jobs", "goes_with", "inputs_of", "needs_of", "policies_of",
           "problems_of_policies", "refuse_arguments"]

#: Why an allocator, and how often it looks, is not for jobs that run by a model.
NOTHING_TO_SHARE = ('allocators share out the network, which jobs on a cluster use where '
                    'execution = "fabric"')


#: What runs, and the arguments of `netsim.simulate` that are not for it, with the reason.
NOT_FOR: Mapping[str, Sequence[tuple[tuple[str, ...], str]]] = {
    "network": (
        (("epsilon", "transport"), "epsilon and transport are for jobs on a netsim.EdgeCloud"),
        (("scheduler", "placement", "execution"),
         "scheduler, placement and execution are for jobs on a netsim.Cluster; on a network all "
         "jobs run when they arrive, as coflows")),
    "cluster": (
        (("epsilon", "transport"), "epsilon and transport are for jobs on a netsim.EdgeCloud"),
        (("timeline",), "there is no timeline of a run on a cluster; its `gpus` say who had what, "
                        "from when to when")),
    "cluster by a model": (
        (("allocator",), f"allocator: {NOTHING_TO_SHARE}"),
        (("observe_interval",), f"observe_interval: {NOTHING_TO_SHARE}")),
    "edge-cloud": (
        (("until", "timeline", "stragglers", "placement", "execution"),
         "{given}: not for a netsim.EdgeCloud, where schedulers place chunks, and jobs run to "
         "their ends"),),
    "edge-cloud without links": (
        (("record of links", "record of decisions", "record of links, decisions"),
         "{given}: not for transport {transport!r}, where delays and rates are constant; for "
         "transport 'fabric'"),
        (("allocator", "observe_interval", "events"),
         "{given}: not for transport {transport!r}, where delays and rates are constant; for "
         "transport 'fabric'")),
}


def refuse_arguments(target: str, given: Mapping[str, bool], **said: str) -> None:
    """Refuse arguments that are not for what runs.

    Parameters
    ----------
    target : str
        A key of `NOT_FOR`.
    given : mapping of str to bool
        Argument -> whether it is given, in the order in which to name them.
    **said
        What the reason names besides.

    Raises
    ------
    InputError
        Naming them, and the reason.
    """
    for names, reason in NOT_FOR[target]:
        if wrong := [name for name, is_given in given.items() if is_given and name in names]:
            raise InputError(reason.format(given=", ".join(wrong), **said))


#: Cases of runs on clusters, and on edge-clouds, that some policies refuse: what each goes against.
CASES: Mapping[str, Mapping[str, str]] = {
    "cluster": {
        "models of several stages, slices, experts, trees": "rings",
        "other patterns, stages written out": "rings known",
        "`allreduce_factor` other than 1": "rings whole",
        "servers with different numbers of GPUs": "alike",
        "jobs that come later": "at-0",
        "no history": "history",
        "a `placement`": "own",
        "servers that fail, with `restart`": "lasting",
        "`events` of links": "no-links"},
    "edge-cloud": {
        "no cloud": "cloud",
        "a type of workers that no server has": "workers",
        "servers that are full": "room",
        "a `transport` other than `constant`": "constant"},
}

#: What a policy may need of a run, and words of the error where that is not so.
REASONS: Mapping[str, str] = {
    "rings": "is no ring: ",
    "known": "what an iteration takes is known of models, and of the pattern 'ring-all-reduce'",
    "whole": "as coflows all of it is sent, and the factor must be 1",
    "alike": "servers must have equally many GPUs each",
    "at-0": "this scheduler plans jobs that are all there at 0",
    "history": "has nothing to learn from",
    "own": "chooses GPUs itself",
    "lasting": "has no plan for jobs that lose a server",
    "no-links": "an event changes links, which jobs use where execution = \"fabric\"",
    "cloud": "needs a cloud",
    "workers": "the scheduler uses the edge alone",
    "room": "storage is too small",
    "constant": "is for schedulers of chunks",
}

_PREDICTS, _PLANS = "known alike history", "rings at-0 own lasting"

#: What policies need that do not take every run, by kind and name.
NEEDS: Mapping[str, Mapping[str, str]] = {
    "scheduler": {
        "a-srpt": f"{_PREDICTS} own", "a-srpt-perfect": "known alike own",
        "ff": _PLANS, "ls": _PLANS, "rand": _PLANS, "sjf-bco": _PLANS,
        "spjf": _PREDICTS, "spwf": _PREDICTS, "wcs-duration": _PREDICTS,
        "wcs-workload": _PREDICTS},
    "placement": {"mapped": "known alike"},
    "execution": {"asrpt": "known alike no-links", "fabric": "whole",
                  "rar-contention": "rings no-links"},
    "edge scheduler": {"a-online-e": "workers room", "batch": "constant", "cloud-only": "cloud",
                       "srtf": "workers constant", "tiresias-l": "workers constant"},
}


def needs_of(kind: str, name: str) -> frozenset[str]:
    """Look up the needs of a policy in `NEEDS`; keys of `REASONS`."""
    return frozenset(NEEDS[kind].get(name, "").split())


def goes_with(kind: str, names: Iterable[str], target: str) -> pd.DataFrame:
    """Return which policies take which cases.

    Parameters
    ----------
    kind : str
        A key of `NEEDS`.
    names : iterable of str
        Policies of that kind.
    target : {"cluster", "edge-cloud"}

    Returns
    -------
    DataFrame of bool
        A row per policy, a column per case that one of them refuses.
    """
    import pandas as pd

    rows = {name: {case: needs_of(kind, name).isdisjoint(against.split())
                   for case, against in CASES[target].items()} for name in names}
    table = pd.DataFrame.from_dict(rows, orient="index")
    return table.loc[:, ~table.all()]


class Policies(NamedTuple):
    """Who decides in a run on a cluster, and how jobs run.

    Attributes
    ----------
    scheduler : Scheduler
    placement : Placement
        For schedulers that leave it to that.
    execution : str
        A name.
    model : Contention
        By which jobs run, or plans go.
    """

    scheduler: Any
    placement: Placement
    execution: str
    model: Contention


def policies_of(scheduler: Any = None, placement: Any = None, execution: Any = None,
                seed: int = 0) -> Policies:
    """Return the scheduler, the placement, how jobs run, and the contention model.

    Raises
    ------
    InputError
        If there is no such policy, or a placement for a scheduler that does not ask for it.
    """
    decider = make_scheduler("fifo" if scheduler is None else scheduler)
    if placement is not None and chooses_gpus(decider):
        raise InputError(
            f"scheduler {SCHEDULERS.to_dict(decider)['name']!r} chooses GPUs itself; a "
            "placement is for those that leave it to that, such as 'fifo' and 'sjf'")
    usual = getattr(decider, "placement", "first-fit")
    placed = make_placement(usual if placement is None else placement, seed)
    return Policies(decider, placed,
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
        Naming the first job that cannot run so, for rings see `netsim.cluster.placed.ring_of`; or
        if servers are not all alike where they must be; or if GPUs of one server exchange more
        slowly than those of two, which rings do not allow for.
    """
    if execution == "fabric":
        for model in dict.fromkeys(job.model for job in workload if job.model is not None):
            model_coflows(model)
    if execution == "asrpt":
        try:
            check_models(cluster, workload)
        except InputError as error:
            raise InputError(f"execution {execution!r}: {error}") from None
    elif any(ring_of(job) is not None for job in workload):
        check_rates(cluster)
    if execution not in ("asrpt", "fabric"):
        where = f"execution {execution!r} has"
    elif hasattr(scheduler, "plan"):
        where = f"scheduler {SCHEDULERS.to_dict(scheduler)['name']!r} plans for"
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


def inputs_of(cluster: Cluster, workload: Workload, scheduler: Any = None, placement: Any = None,
              execution: Any = None, seed: int = 0) -> tuple[Workload, Policies]:
    """Return what runs on a cluster, with rings where only they can, and who decides.

    Raises
    ------
    InputError
        If there is no such policy, or jobs, policies and cluster do not go together.
    """
    policies = policies_of(scheduler, placement, execution, seed)
    check_jobs(workload, cluster)
    rings = as_rings(workload, cluster, policies.scheduler, policies.execution)
    for _, problem in _unsuited(rings, cluster, policies, seed):
        raise InputError(problem)
    return rings, policies


def problems_of_policies(cluster: Cluster | None, workload: Workload, given: Mapping[str, Any],
                         seed: int = 0) -> list[tuple[str, str]]:
    """Return what is wrong with policies in an experiment: the key of each problem, and why.

    Parameters
    ----------
    cluster : Cluster or None
        None if there is none, so that no policy may be given.
    workload : Workload
    given : mapping
        ``scheduler``, ``placement`` and ``execution``, as far as they are.
    seed : int
    """
    try:
        policies = policies_of(**given, seed=seed)
    except InputError as error:
        unknown = isinstance(error, UnknownNameError)
        return [("scheduler.name" if unknown else "placement", str(error))]
    if cluster is None:
        return []
    try:
        rings = as_rings(workload, cluster, policies.scheduler, policies.execution)
    except InputError as error:
        return [("workload", str(error))]
    return _unsuited(rings, cluster, policies, seed)


def _unsuited(workload: Workload, cluster: Cluster, policies: Policies, seed: int
              ) -> list[tuple[str, str]]:
    """Return which policies are not for such jobs or such a cluster: what they are, and why."""
    context = RunContext(cluster, workload.jobs, policies.model, workload.history, seed)
    asked: list[tuple[str, Any, Registry]] = [
        ("scheduler", policies.scheduler, SCHEDULERS)]
    if not chooses_gpus(policies.scheduler):
        asked.append(("placement", policies.placement, PLACEMENTS))
    sliced = next((job for job in workload if is_sliced(job.model)), None)
    problems = []
    for what, policy, registry in asked:
        owner = f"{what} {registry.to_dict(policy)['name']!r}"
        if sliced is not None and not getattr(policy, "keeps_slices", True):
            problems.append((what, f"{owner} does not keep the slices of a replica on one server; "
                                   f"job {sliced.id} has some"))
        try:
            if hasattr(policy, "suits"):
                policy.suits(context)
        except InputError as error:
            hint = "; another one, such as 'first-fit', may do" if what == "placement" else ""
            problems.append((what, f"{owner}: {error}{hint}"))
    return problems
