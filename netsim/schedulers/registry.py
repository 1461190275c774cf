"""Schedulers of jobs on clusters and edge-clouds by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim.base.plugins import Registry

#: Values of the attribute ``schedules``; a scheduler with one of them needs one of the methods.
_METHODS: Mapping[str, tuple[str, ...]] = {
    "jobs": ("decide", "begin"), "chunks": ("dispatcher",), "runs": ("run",)}


def schedules(scheduler: Any) -> str:
    """What a scheduler schedules, as it declares in an attribute of this name.

    With ``"jobs"`` (the default), its method ``decide`` or ``begin`` decides when whole jobs get
    GPUs, or workers of an edge-cloud. With ``"chunks"``, its ``dispatcher`` dispatches the chunks
    of jobs on an edge-cloud. With ``"runs"``, its ``run`` computes the schedule of a whole run on
    an edge-cloud.
    """
    return str(getattr(scheduler, "schedules", "jobs"))


def _has_its_method(made: Any) -> bool:
    """Whether an object has a method for what it schedules."""
    return any(callable(getattr(made, name, None)) for name in _METHODS.get(schedules(made), ()))


#: The schedulers; `schedules` says which methods they have. The preset is the job scheduler of
#: Ada-SRSF, whose communication is allocated by ``adadual``.
SCHEDULERS = Registry(
    "scheduler", {
        "a-online": "netsim.schedulers.a_online:AOnline",
        "a-online-e": "netsim.schedulers.a_online:AOnlineEdge",
        "a-srpt": "netsim.schedulers.a_srpt:ASRPT",
        "a-srpt-perfect": "netsim.schedulers.a_srpt:ASRPTPerfect",
        "batch": "netsim.schedulers.batch:BatchSche",
        "cloud-only": "netsim.schedulers.a_online:CloudOnly",
        "ff": "netsim.schedulers.sjf_bco:FF",
        "fifo": "netsim.schedulers.queues:FIFO",
        "gandiva-rr": "netsim.schedulers.queues:GandivaRR",
        "las": "netsim.schedulers.attained:LAS",
        "ls": "netsim.schedulers.sjf_bco:LS",
        "rand": "netsim.schedulers.sjf_bco:RAND",
        "sjf": "netsim.schedulers.queues:SJF",
        "sjf-bco": "netsim.schedulers.sjf_bco:SjfBco",
        "spjf": "netsim.schedulers.predicted:SPJF",
        "spwf": "netsim.schedulers.predicted:SPWF",
        "srsf": "netsim.schedulers.queues:SRSF",
        "srtf": "netsim.schedulers.queues:SRTF",
        "tiresias": "netsim.schedulers.attained:Tiresias",
        "tiresias-g": "netsim.schedulers.attained:TiresiasG",
        "tiresias-l": "netsim.schedulers.attained:TiresiasL",
        "wcs-duration": "netsim.schedulers.predicted:WCSDuration",
        "wcs-subtime": "netsim.schedulers.predicted:WCSSubTime",
        "wcs-workload": "netsim.schedulers.predicted:WCSWorkload",
    },
    presets={"ada-srsf": {"name": "sjf", "by": "service", "backfill": True}},
    accepts=_has_its_method,
    refusal="is no scheduler: it needs a method decide, or begin; on an edge-cloud, dispatcher if "
            'it declares schedules = "chunks", or run if it declares schedules = "runs"',
    group="schedulers")


def make_scheduler(given: Any) -> Any:
    """Make a scheduler from a name with options, such as ``"ff:order=by_size"``, or copy an object.

    `schedules` says which methods an object needs; ``run`` takes an `EdgeSetting`, and returns a
    `netsim.edge.schedule.Schedule`.
    """
    return SCHEDULERS.instantiate(given)


def chooses_gpus(scheduler: Any) -> bool:
    """Whether a scheduler chooses GPUs itself, so that no placement is used."""
    return bool(getattr(scheduler, "chooses_gpus", False))
