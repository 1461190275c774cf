"""A run, described once: `netsim.simulate`, comparisons, sweeps and experiment files make this.

Its fields are the arguments of `netsim.simulate`. Beside each stands where it does not apply, with
the reason, so that calls and files refuse the same in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.base.units import Quantity, parse_seconds
from netsim.base.values import (
    Node,
    as_collection,
    as_flag,
    as_list,
    as_whole,
    convert,
    optional,
    plain,
    refuse_several,
)
from netsim.errors import InputError
from netsim.network import Topology
from netsim.results.result import EDGE_TABLES
from netsim.results.tables import OF_LINKS
from netsim.simulation.events import FaultEvent

if TYPE_CHECKING:
    from netsim.cluster import Cluster
    from netsim.edge import EdgeCloud

#: What a timeline shows beside the jobs.
TIMELINE = ("coflows", "computations", "links", "decisions")

#: What jobs run on, as errors and the docs call it.
TARGETS = ("network", "cluster", "cluster by a model", "edge-cloud", "edge-cloud without links")

_NOTHING_TO_SHARE = ("allocators share the links of the network, which jobs on a cluster use "
                     "only with execution = \"fabric\"")
_FOR_EDGE_CLOUDS = "for jobs on an edge-cloud, [edge_cloud] in a file"
_AS_COFLOWS = "on a network, all jobs run as coflows as soon as they arrive"
_FOR_CLUSTERS = f"for jobs on a cluster, [cluster] in a file; {_AS_COFLOWS}"
_FOR_SCHEDULERS = f"for jobs on a cluster or an edge-cloud; {_AS_COFLOWS}"
_PLACED_BY_SCHEDULERS = "for jobs on a cluster; on an edge-cloud the scheduler places jobs"
_CONSTANT = "for transport 'fabric'; with {transport!r} delays and rates are constant"

_ONLY_EDGE = {"network": _FOR_EDGE_CLOUDS, "cluster": _FOR_EDGE_CLOUDS}
_NEEDS_LINKS = {"edge-cloud without links": _CONSTANT}
_NEEDS_ALLOCATOR = {"cluster by a model": _NOTHING_TO_SHARE, **_NEEDS_LINKS}
_NEEDS_SCHEDULER = {"network": _FOR_SCHEDULERS}
_PLACES = {"network": _FOR_CLUSTERS, "edge-cloud": _PLACED_BY_SCHEDULERS}


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """The arguments of one run; see `netsim.simulate`.

    The metadata of a field has the reason for each of `TARGETS` to which it does not apply.
    """

    network: Topology | Cluster | EdgeCloud | str | Path = field(metadata=_NEEDS_LINKS)
    workload: Any
    until: Quantity | None = None
    timeline: bool = False
    stragglers: Mapping[Node, float] | None = field(default=None, metadata={
        "edge-cloud": "for hosts and servers; on an edge-cloud, the jobs define how long "
                      "training takes"})
    placement: Any = field(default=None, metadata=_PLACES)
    execution: Any = field(default=None, metadata=_PLACES)
    allocator: Any = field(default="maxmin", metadata=_NEEDS_ALLOCATOR)
    observe_interval: Quantity = field(default=0.0, metadata=_NEEDS_ALLOCATOR)
    events: Sequence[FaultEvent | Mapping[str, Any]] = field(
        default=(), metadata=_NEEDS_LINKS)
    scheduler: Any = field(default=None, metadata=_NEEDS_SCHEDULER)
    epsilon: float = field(default=0.0, metadata=_ONLY_EDGE)
    transport: Any = field(default="constant", metadata=_ONLY_EDGE)
    preemption: Any = field(default=None, metadata={"network": _FOR_CLUSTERS})
    record: Sequence[str] = ("jobs", "coflows")
    check: bool = True
    seed: int = 0
    symmetry: bool = True

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            # The others may be lists, and are checked where they are used.
            if isinstance(value, list | tuple | range) and each.name not in (
                    "workload", "record", "events", "stragglers"):
                refuse_several(value, each.name)
        if isinstance(self.workload, list | tuple) and any(
                isinstance(each, str | Path) or hasattr(each, "jobs") for each in self.workload):
            refuse_several(self.workload, "workload")
        convert(self, seed=as_whole, timeline=as_flag, check=as_flag, symmetry=as_flag,
                observe_interval=parse_seconds, epsilon=plain, stragglers=plain,
                record=partial(as_collection, kind=str, of="names"),
                events=partial(as_list, kind=FaultEvent | Mapping, of="FaultEvent or mappings"),
                until=optional(partial(parse_seconds, strict=True)))

    @property
    def given(self) -> list[str]:
        """The arguments that differ from their defaults, and the tables to record that differ.

        As errors name them: a table is ``"record.links"``.
        """
        names = [each.name for each in fields(self) if each.default is not MISSING
                 and each.name != "record"
                 and not _is_default(getattr(self, each.name), each.default)]
        return names + [f"record.{name}" for name in (*OF_LINKS, *EDGE_TABLES)
                        if name in self.record]


def _is_default(value: Any, default: object) -> bool:
    """Whether an argument is the default; arrays compare element by element."""
    return value is default or (isinstance(value, str | int | float) and value == default)


# --- arguments that do not apply -----------------------------------------------------------

#: Keys of experiment files that are no arguments of a run, or parts of them.
_OTHER_KEYS: Mapping[str, Mapping[str, str]] = {
    "lp_bound": _ONLY_EDGE, "compare.allocators": _NEEDS_ALLOCATOR,
    "compare.schedulers": _NEEDS_SCHEDULER, "cluster": {"edge-cloud": "an edge-cloud has none"},
    **dict.fromkeys((f"record.{name}" for name in OF_LINKS), _NEEDS_LINKS),
    # Only runs on edge-clouds have these tables, and they always have them.
    **dict.fromkeys((f"record.{name}" for name in EDGE_TABLES), _ONLY_EDGE)}

_REASONS = {**{each.name: each.metadata for each in fields(RunSpec)},
            **_OTHER_KEYS}

#: For each target, the arguments of `netsim.simulate` and the keys of an experiment that do not
#: apply to it, with the reason.
NOT_FOR: Mapping[str, Mapping[str, str]] = {
    target: {name: reasons[target] for name, reasons in _REASONS.items() if target in reasons}
    for target in TARGETS}


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
    for key, reason in problems:
        names = ", ".join(name for name, why in problems if why == reason)
        raise InputError(f"{names}: {reason}", key)
