"""Schedulers of jobs on clusters and edge-clouds by name."""

from __future__ import annotations

from typing import Any

from netsim.plugins import Registry

__all__ = ["SCHEDULERS", "chooses_gpus", "make_scheduler", "schedules_whole_jobs"]

#: Methods of schedulers, one of which is enough: of jobs anywhere, and of what edge-clouds have.
_OF_JOBS = ("decide", "begin")
_OF_EDGE_CLOUDS = ("dispatcher", "run")

#: Classes with ``decide``, or with ``begin``, which returns an object with ``decide`` for one run;
#: or with ``dispatcher``, for chunks of jobs on an edge-cloud.
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
        "gandiva-rr": "netsim.schedulers.time_slices:GandivaRR",
        "las": "netsim.schedulers.attained:LAS",
        "ls": "netsim.schedulers.sjf_bco:LS",
        "rand": "netsim.schedulers.sjf_bco:RAND",
        "sjf": "netsim.schedulers.queues:SJF",
        "sjf-bco": "netsim.schedulers.sjf_bco:SjfBco",
        "spjf": "netsim.schedulers.predicted:SPJF",
        "spwf": "netsim.schedulers.predicted:SPWF",
        "srsf": "netsim.schedulers.remaining:SRSF",
        "srtf": "netsim.schedulers.remaining:SRTF",
        "tiresias": "netsim.schedulers.attained:Tiresias",
        "tiresias-g": "netsim.schedulers.attained:TiresiasG",
        "tiresias-l": "netsim.schedulers.attained:TiresiasL",
        "wcs-duration": "netsim.schedulers.predicted:WCSDuration",
        "wcs-subtime": "netsim.schedulers.predicted:WCSSubTime",
        "wcs-workload": "netsim.schedulers.predicted:WCSWorkload",
    },
    accepts=lambda made: any(hasattr(made, name) for name in (*_OF_JOBS, *_OF_EDGE_CLOUDS)),
    refusal="is no scheduler: it needs a method decide, or begin; on an edge-cloud, dispatcher or "
            "run will do, too")


def make_scheduler(given: Any) -> Any:
    """Make a scheduler.

    Parameters
    ----------
    given : str, mapping or object
        A name from `SCHEDULERS`, or ``"module:Class"``, with options as in ``"ff:order=by_size"``;
        ``{"name": ..., option: ...}``; or an object with ``begin`` or ``decide`` (see
        `netsim.engine.view.Scheduler`), with ``dispatcher`` (see
        `netsim.schedulers.a_online.Dispatcher`), or with ``run``, which returns the
        `netsim.edge.schedule.Schedule` of an `EdgeSetting`; it is copied.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist.
    InputError
        If the argument is not a scheduler, or an option has an invalid value.
    """
    return SCHEDULERS.instantiate(given)


def chooses_gpus(scheduler: Any) -> bool:
    """Whether a scheduler chooses GPUs itself, so that no placement is used."""
    return bool(getattr(scheduler, "chooses_gpus", False))


def schedules_whole_jobs(policy: Any) -> bool:
    """Whether a policy decides when jobs get GPUs, or workers of an edge-cloud, as a whole."""
    return (any(hasattr(policy, name) for name in _OF_JOBS)
            and not any(hasattr(policy, name) for name in (
                *_OF_EDGE_CLOUDS, "allocate", "shares_links")))
