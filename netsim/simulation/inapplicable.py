"""Arguments and experiment keys that do not apply to a kind of run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from netsim.engine.preemption import Preemption, on_edge
from netsim.errors import InputError
from netsim.jobs.ranked_stages import has_operations
from netsim.recording.recordable import OF_LINKS
from netsim.results.result import EDGE_TABLES
from netsim.schedulers.registry import SCHEDULERS, make_scheduler, schedules
from netsim.workload import Workload

_NOTHING_TO_SHARE = ("allocators share the links of the network, which jobs on a cluster use "
                     "only with execution = \"fabric\"")
_FOR_EDGE_CLOUDS = "for jobs on an edge-cloud, [edge_cloud] in a file"
_AS_COFLOWS = "on a network, all jobs run as coflows as soon as they arrive"
_FOR_CLUSTERS = f"for jobs on a cluster, [cluster] in a file; {_AS_COFLOWS}"
_FOR_SCHEDULERS = f"for jobs on a cluster or an edge-cloud; {_AS_COFLOWS}"
_PLACED_BY_SCHEDULERS = "for jobs on a cluster; on an edge-cloud the scheduler places jobs"
_CONSTANT = "for transport 'fabric'; with {transport!r} delays and rates are constant"

#: Tables that only runs on edge-clouds have, which always have them.
_RECORDS_OF_EDGE = dict.fromkeys((f"record.{name}" for name in EDGE_TABLES), _FOR_EDGE_CLOUDS)

#: For each target, the arguments of `netsim.simulate` and the keys of an experiment that do not
#: apply to it, with the reason.
NOT_FOR: Mapping[str, Mapping[str, str]] = {
    "network": {
        **dict.fromkeys(("epsilon", "transport", "lp_bound"), _FOR_EDGE_CLOUDS),
        **dict.fromkeys(("scheduler", "compare.schedulers"), _FOR_SCHEDULERS),
        **dict.fromkeys(("placement", "execution", "preemption"), _FOR_CLUSTERS),
        **_RECORDS_OF_EDGE},
    "cluster": {
        **dict.fromkeys(("epsilon", "transport", "lp_bound"), _FOR_EDGE_CLOUDS),
        **_RECORDS_OF_EDGE},
    "cluster by a model": dict.fromkeys(
        ("allocator", "observe_interval", "compare.allocators"), _NOTHING_TO_SHARE),
    "edge-cloud": {
        "cluster": "an edge-cloud has none",
        **dict.fromkeys(("placement", "execution"), _PLACED_BY_SCHEDULERS),
        "stragglers": "for hosts and servers; on an edge-cloud, the jobs define how long "
                      "training takes"},
    "edge-cloud without links": dict.fromkeys(
        ("network", "events", "allocator", "observe_interval", "compare.allocators",
         *(f"record.{name}" for name in OF_LINKS)), _CONSTANT),
}


def problems_of_arguments(target: str, given: Iterable[str], **said: str) -> list[tuple[str, str]]:
    """List the arguments that do not apply to a target, a key of `NOT_FOR`, with reasons.

    Messages name the arguments in the given order; `said` fills placeholders in the reasons.
    """
    return [(name, NOT_FOR[target][name].format(**said)) for name in given
            if name in NOT_FOR[target]]


def refuse_arguments(target: str, given: Iterable[str], **said: str) -> None:
    """Check that all given arguments apply to a target; see `problems_of_arguments`.

    The error names the first argument that does not, and all others with the same reason.
    """
    problems = problems_of_arguments(target, given, **said)
    for _, reason in problems:
        names = ", ".join(name for name, why in problems if why == reason)
        raise InputError(f"{names}: {reason}")


def without_preemption(schedulers: Iterable[Any]) -> list[bool]:
    """Find which of several compared schedulers on an edge-cloud ignore the options of preemption.

    These are the schedulers of chunks. But if there are no others, none counts as ignoring them, so
    that the options are refused.
    """
    free = [schedules(make_scheduler(each)) != "jobs" for each in schedulers]
    return [False] * len(free) if all(free) else free


def problem_of_pauses(workload: Workload, keep: str) -> str | None:
    """Return why `keep` is not possible: a job cannot be paused in an iteration; or None."""
    ranked = next((job for job in workload if has_operations(job)), None)
    if ranked is None or keep != "fraction":
        return None
    return (f"keep must be 'iterations', not 'fraction': ranks of job {ranked.id} compute, or its "
            "iterations overlap, and it cannot be paused within one")


def preemption_on_edge(given: Any, scheduler: Any) -> Preemption:
    """Make the options of preemption on an edge-cloud, for schedulers of whole jobs."""
    if schedules(scheduler) != "jobs":
        name = SCHEDULERS.to_dict(scheduler)["name"]
        raise InputError("preemption is for jobs on a cluster and for whole jobs; scheduler "
                         f"{name!r} dispatches chunks, or plans jobs by itself")
    return on_edge(given)
