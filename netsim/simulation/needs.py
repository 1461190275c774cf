"""What policies need of a run: a row of `NEEDS` each.

A policy lists its requirements in an attribute ``needs``. The table is used to refuse runs before
they begin, in `netsim.simulation.compatibility`, and to make the tables in the docs.
"""


from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from netsim import edge
from netsim.cluster.cluster import server_kind
from netsim.cluster.contention import check_rates
from netsim.cluster.context import RunContext
from netsim.cluster.placed import ring_of
from netsim.cluster.ring import has_model, is_sliced, kind_of, model_of
from netsim.edge.registry import TRANSPORTS, ConstantTransport, TransportKind
from netsim.edge.setting import EdgeSetting
from netsim.errors import InputError, UnknownNameError
from netsim.jobs.patterns import model_coflows
from netsim.jobs.plan import check_traffic
from netsim.network import Topology
from netsim.schedulers.plan import check_at_start
from netsim.schedulers.registry import chooses_gpus, schedules
from netsim.simulation.events import Change


class ClusterRun(NamedTuple):
    """Inputs of a run on a cluster that requirements are checked against.

    `placed`: whether the user chose a placement.
    """

    context: RunContext
    changes: Sequence[Change] = ()
    placed: bool = False


class EdgeRun(NamedTuple):
    """Inputs of a run on an edge-cloud that requirements are checked against."""

    setting: EdgeSetting
    transport: TransportKind
    changes: Sequence[Change] = ()


class Need(NamedTuple):
    """A requirement that a policy may have of a run."""

    #: Takes a `ClusterRun` or an `EdgeRun`; returns why it does not meet the requirement, or None.
    problem: Callable[[Any], str | None]
    key: str  #: the experiment key that an error refers to; "" for the key of the policy
    cases: tuple[str, ...]  #: what the policy does not support: columns of the tables in the docs
    because: str  #: the reason for the requirement, for the docs


# --- what policies need on a cluster --------------------------------------------------------
def refusal(check: Callable[..., object], *values: Any) -> str | None:
    """Return the message of the error that a check raises, or None if it passes."""
    try:
        check(*values)
    except InputError as error:
        return str(error)
    return None


def _first(problems: Iterable[str | None]) -> str | None:
    return next((problem for problem in problems if problem is not None), None)


def _not_rings(run: ClusterRun) -> str | None:
    for job in run.context.jobs:
        if ring_of(job) is None:
            return (f"job {job.id} is no ring: it has {kind_of(job)}. Rings are jobs with the "
                    "pattern 'ring-all-reduce', or with a model of one stage and a ring "
                    "all-reduce; other jobs can run with execution 'fabric', under schedulers "
                    "that do not plan, such as 'fifo'")
    return None


def _slow_servers(run: ClusterRun) -> str | None:
    if run.context.cluster.by_gpu and run.context.model.uses_links:
        return None  # rings are on links inside servers, too
    problem = refusal(check_rates, run.context.cluster)
    if problem and any(ring_of(job) is not None for job in run.context.jobs):
        return problem
    return None


def _parts_of_all_reduces(run: ClusterRun) -> str | None:
    models = dict.fromkeys(job.model for job in run.context.jobs if job.model is not None)
    return _first(refusal(model_coflows, model) for model in models)


def _no_history(run: ClusterRun) -> str | None:
    if run.context.history:
        return None
    return ("the workload has none, so the predictor has nothing to learn from; give one, such "
            "as by the option `train` of its format, or retrain = \"1d\", or predictor = "
            "\"perfect\"")


def _placement_given(run: ClusterRun) -> str | None:
    return ("it chooses GPUs itself; a placement is for schedulers that "
            "leave the choice to it, such as 'fifo' and 'sjf'") if run.placed else None


def _slices(run: ClusterRun) -> str | None:
    sliced = next((job for job in run.context.jobs if is_sliced(job.model)), None)
    return None if sliced is None else (
        f"it does not keep the slices of a replica on one server; job {sliced.id} has some")


def _restarts(run: ClusterRun) -> str | None:
    return ("it has planned all jobs before the run, and has no plan for jobs that lose a server; "
            "restart = true is for other schedulers, such as 'fifo'"
            ) if any(change.restart for change in run.changes) else None


def wire_of(network: Topology) -> str | None:
    """Describe the properties of links that only coflows take into account."""
    if not network.wire.timed and network.wire.plain:
        return None
    return (f"network {network.name!r} has "
            + ("latency or overhead" if network.wire.timed else "packets with headers")
            + ", which only coflows take into account: those of jobs on a network, or on a "
              "cluster with execution = \"fabric\"")


def _links_change(run: ClusterRun) -> str | None:
    for change in run.changes:
        if change.host is None or change.kind == "degrade":
            return ("an event changes links, but jobs use links only with execution = "
                    "\"fabric\"; without, servers can fail and be repaired")
        if change.kind == "fail" and not change.restart:
            return ("jobs have no links to wait for; set restart = true in the event in which "
                    f"server {change.host} fails")
    return None


_FACTOR = "`allreduce_factor` other than 1"

_ON_CLUSTERS: Mapping[str, Need] = {
    "an edge-cloud": Need(
        lambda run: f"{run.context.cluster.name!r} is a cluster",
        "", (), "it schedules chunks of jobs, or sends jobs to the cloud"),
    "rings": Need(
        _not_rings, "workload", ("jobs other than rings", _FACTOR),
        "`rar-contention` and the plans of SJF-BCO only support rings: the pattern "
        "`ring-all-reduce`, or a model of one stage with a ring all-reduce"),
    "known iteration times": Need(
        lambda run: _first(refusal(model_of, job) for job in run.context.jobs),
        "workload", ("jobs other than models and rings",),
        "the time of an iteration is known only for models and rings; `asrpt` runs jobs by it, "
        "and predictions need it"),
    "known traffic": Need(
        lambda run: _first(refusal(check_traffic, job) for job in run.context.jobs
                           if not has_model(job)),
        "workload", ("patterns other than rings",),
        "`mapped` uses the traffic between replicas or ranks; flows of other patterns are drawn "
        "when jobs run"),
    "whole all-reduces": Need(
        _parts_of_all_reduces, "workload", (_FACTOR,),
        "coflows send the whole all-reduce"),
    "equal servers": Need(
        lambda run: refusal(server_kind, run.context.cluster),
        "cluster", ("servers with different numbers of GPUs",),
        "the GPUs must have equal shares of a NIC"),
    "fast servers": Need(
        _slow_servers, "cluster", ("`intra` below `nic`, with rings",),
        "the model assumes that a ring is not slower on one server than on two"),
    "jobs at 0": Need(
        lambda run: refusal(check_at_start, run.context.jobs),
        "workload", ("jobs that come later",),
        "a plan needs all jobs to arrive at 0"),
    "a history": Need(
        _no_history, "workload", ("no history",),
        "there is nothing to learn from, unless `predictor = \"perfect\"`, or `retrain` lets "
        "predictors learn from the run"),
    "no placement": Need(
        _placement_given, "placement", ("a `placement`",),
        "the scheduler chooses the GPUs of jobs itself: `chooses_gpus = True`"),
    "no slices": Need(
        _slices, "", ("models with slices",),
        "the policy does not keep the slices of a replica on one server: `keeps_slices = False`"),
    "no restarts": Need(
        _restarts, "events", ("servers that fail, with `restart`",),
        "a plan made in advance has no place for jobs that restart; see [Faults](faults.md)"),
    "no link events": Need(
        _links_change, "events", ("`events` of links",),
        "formulas have no links"),
    "ideal links": Need(
        lambda run: wire_of(run.context.cluster.network),
        "cluster", ("links with latency, overhead or packets",),
        "formulas have neither latency nor headers"),
}


# --- what policies need on an edge-cloud ----------------------------------------------------
def _no_cloud(run: EdgeRun) -> str | None:
    system = run.setting.system
    return None if system.cloud else f"edge-cloud {system.name!r} has none"


def _shared_links(run: EdgeRun) -> str | None:
    if isinstance(run.transport, ConstantTransport):
        return None
    return f"transport {_name_of(run.transport)!r} decides itself when jobs train"


def _only_chunks(run: EdgeRun) -> str | None:
    only_chunks = f"transport {_name_of(run.transport)!r} is for schedulers of chunks"
    if not hasattr(run.transport, "backend"):
        return only_chunks
    return getattr(run.transport, "why_not_whole", only_chunks)


def _name_of(transport: TransportKind) -> str:
    name: str = TRANSPORTS.to_dict(transport)["name"]
    return name


_ON_EDGE_CLOUDS: Mapping[str, Need] = {
    "a cluster": Need(
        lambda run: (f"{run.setting.system.name!r} is an edge-cloud, where the jobs define how "
                     "long they train"),
        "", (), "it needs something that only clusters have"),
    "constant delays": Need(
        _shared_links, "", ("a `transport` other than `constant`",),
        "a schedule made in advance has the times at which jobs train"),
    "a transport of whole jobs": Need(
        _only_chunks, "", ("a `transport` whose `preemption` is `drop` or `finish`",),
        "preempted whole jobs keep the finished part of a mini-batch"),
    "exchanges with a PS": Need(
        lambda run: refusal(run.setting.check_ps), "workload",
        ("jobs with `exchange = \"ring\"`",),
        "`drop` and `pause` stop a chunk in a mini-batch that the rest of its ring goes on with"),
    "a cloud": Need(_no_cloud, "", ("no cloud",), "all chunks train there"),
    "edge workers": Need(
        lambda run: refusal(run.setting.check_workers),
        "workload", ("a type of workers that no server has",), "all jobs train at the edge"),
    "edge storage": Need(
        lambda run: refusal(run.setting.check_storage, False),
        "edge_cloud.storage", ("servers that are full",), "servers of the edge hold all chunks"),
    "edge storage for whole jobs": Need(
        lambda run: refusal(edge.whole_jobs.check_room, run.setting),
        "edge_cloud.storage", ("servers that are full",),
        "the storage of edge servers must hold everything that a job's workers train"),
    "edge storage or a cloud": Need(
        lambda run: refusal(run.setting.check_storage, True),
        "edge_cloud.storage", ("servers that are full, and no cloud",),
        "servers of the edge or the cloud hold each chunk"),
    "sites of the network": Need(
        lambda run: refusal(run.setting.check_sites),
        "workload", ("data at a site that is not in the network",), "uploads start at sites"),
    "no restarts": Need(
        lambda run: ("restart is for hosts of a network and servers of a cluster"
                     if any(change.restart for change in run.changes) else None),
        "events", ("servers that fail, with `restart`",), "chunks do not start over"),
    "placed jobs": Need(
        lambda run: "chunks on an edge-cloud have no servers and no GPUs of a cluster",
        "", ("an edge-cloud",),
        "allocators such as `ring-contention`, `reserved:shares=gpus` and `lp-order` need the "
        "servers, GPUs or hosts of jobs"),
}

#: All requirements, by target and by the name that policies declare.
NEEDS: Mapping[str, Mapping[str, Need]] = {"cluster": _ON_CLUSTERS, "edge-cloud": _ON_EDGE_CLOUDS}


def _at_the_edge(scheduler: Any) -> bool:
    """Whether a scheduler gives all workers of each job at once, and never those of the cloud."""
    return schedules(scheduler) == "jobs" and not _uses_cloud(scheduler)


#: Requirements that other attributes of a policy imply, so that it need not declare them.
_IMPLIED: Mapping[str, Callable[[Any], bool]] = {
    "a cluster": lambda policy: bool(
        {*_declared(policy)} - {*NEEDS["edge-cloud"], "an edge-cloud"}),
    "an edge-cloud": lambda policy: schedules(policy) != "jobs" or _uses_cloud(policy),
    "no placement": chooses_gpus,
    "no slices": lambda policy: not getattr(policy, "keeps_slices", True),
    "constant delays": lambda policy: schedules(policy) == "runs",
    "sites of the network": lambda policy: getattr(policy, "shares_links", False),
    "no restarts": lambda policy: getattr(policy, "shares_links", False),
    "placed jobs": lambda policy: (getattr(policy, "sees_running", False)
                                   or getattr(policy, "reserves_gpus", False)
                                   or getattr(policy, "plans_ahead", False)),
}

#: Further requirements that attributes of schedulers imply.
_IMPLIED_BY_SCHEDULERS: Mapping[str, Callable[[Any], bool]] = {
    "a transport of whole jobs": lambda scheduler: schedules(scheduler) == "jobs",
    "edge workers": _at_the_edge,
    "edge storage for whole jobs": _at_the_edge,
}


def needs_of(policy: Any, target: str, kind: str = "scheduler") -> tuple[str, ...]:
    """List the requirements that a policy declares, and those implied by its other attributes.

    They are names of rows of `NEEDS`, in the order of the table. `kind` is that of the policy's
    registry, such as ``"scheduler"``.
    """
    rows, declared = NEEDS[target], _declared(policy)
    for name in declared:
        if not any(name in each for each in NEEDS.values()):
            raise UnknownNameError("need", name, rows)
    implied = {**_IMPLIED, **(_IMPLIED_BY_SCHEDULERS if kind == "scheduler" else {})}
    return tuple(name for name in rows
                 if name in declared or (name in implied and implied[name](policy)))


def _declared(policy: Any) -> tuple[str, ...]:
    """Return the requirements that a policy declares."""
    declared = getattr(policy, "needs", ())
    return (declared,) if isinstance(declared, str) else tuple(declared)


def _uses_cloud(scheduler: Any) -> bool:
    """Whether a scheduler sends jobs that no worker of the edge can train to the cloud."""
    return bool(getattr(scheduler, "uses_cloud", False))


def places_of(scheduler: Any) -> tuple[str, ...]:
    """List where a scheduler runs: on a ``"cluster"``, an ``"edge-cloud"``, or both."""
    return tuple(place for place, other in (("cluster", "an edge-cloud"),
                                            ("edge-cloud", "a cluster"))
                 if other not in needs_of(scheduler, place))
