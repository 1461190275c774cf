"""Schedulers of clusters by name."""

from __future__ import annotations

from typing import Any

from netsim.plugins import Registry

__all__ = ["SCHEDULERS", "chooses_gpus", "make_scheduler"]

#: Classes with ``decide``, or with ``begin``, which returns an object with ``decide`` for one run.
SCHEDULERS = Registry(
    "scheduler", {
        "a-srpt": "netsim.schedulers.a_srpt:ASRPT",
        "a-srpt-perfect": "netsim.schedulers.a_srpt:ASRPTPerfect",
        "ff": "netsim.schedulers.sjf_bco:FF",
        "fifo": "netsim.schedulers.queues:FIFO",
        "ls": "netsim.schedulers.sjf_bco:LS",
        "rand": "netsim.schedulers.sjf_bco:RAND",
        "sjf": "netsim.schedulers.queues:SJF",
        "sjf-bco": "netsim.schedulers.sjf_bco:SjfBco",
        "spjf": "netsim.schedulers.predicted:SPJF",
        "spwf": "netsim.schedulers.predicted:SPWF",
        "wcs-duration": "netsim.schedulers.predicted:WCSDuration",
        "wcs-subtime": "netsim.schedulers.predicted:WCSSubTime",
        "wcs-workload": "netsim.schedulers.predicted:WCSWorkload",
    },
    accepts=lambda made: hasattr(made, "begin") or hasattr(made, "decide"),
    refusal="is no scheduler: it needs a method decide, or begin")


def make_scheduler(given: Any) -> Any:
    """Make a scheduler.

    Parameters
    ----------
    given : str, mapping or object
        A name from `SCHEDULERS`, or ``"module:Class"``, with options as in ``"ff:order=by_size"``;
        ``{"name": ..., option: ...}``; or an object with ``begin`` or ``decide``, which is
        copied.

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
