"""What jobs keep when they lose their GPUs, and what it costs to stop and to continue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from netsim.base.units import parse_bytes, parse_seconds
from netsim.base.values import as_choice, check_options, convert, known_names
from netsim.errors import InputError

_KEEPS = ("iterations", "fraction")
_ON_FAULT = ("iterations", "checkpoint")

#: Options that mean nothing on an edge-cloud, with the reason.
_NOT_ON_EDGE = {"state_bytes": "jobs upload their data to the servers that they use, and move "
                               "nothing else",
                "on_fault": "no server is lost"}

#: Absolute and relative error of a job's progress, in iterations.
_ROUNDING, _RELATIVE = 1e-9, 1e-12


@known_names
@dataclass(frozen=True)
class Preemption:
    """What a job keeps when it is preempted or loses a server, and what that costs.

    Parameters
    ----------
    keep : {"iterations", "fraction"}
        Whether a preempted job keeps its whole iterations only, or also the part of the current
        one.
    checkpoint_s : quantity
        Time to save progress, for which a preempted job still holds its GPUs. It is not spent if
        the job has made nothing new that it would keep.
    restore_s : quantity
        Time to load saved progress, for which a restarted job already holds its GPUs.
    state_bytes : quantity
        Bytes that a job moves if it restarts on a server on which it did not run last. A job's own
        `state_bytes` take precedence.
    on_fault : {"iterations", "checkpoint"}
        What a job that loses a server keeps: its whole iterations, or only the iterations that it
        had saved when it got its GPUs.

    Raises
    ------
    InputError
        If a value is invalid.
    """

    keep: str = "iterations"
    checkpoint_s: float = 0.0
    restore_s: float = 0.0
    state_bytes: float = 0.0
    on_fault: str = "iterations"

    def __post_init__(self) -> None:
        convert(self, keep=partial(as_choice, choices=_KEEPS), checkpoint_s=parse_seconds,
                restore_s=parse_seconds, state_bytes=parse_bytes,
                on_fault=partial(as_choice, choices=_ON_FAULT))


def whole(progress: float) -> float:
    """The whole iterations in a job's progress, including an iteration that ends now."""
    return float((progress + _ROUNDING + _RELATIVE * progress) // 1)


def as_preemption(given: Preemption | Mapping[str, Any] | None) -> Preemption:
    """Make the options of preemption from a mapping; by default, preemption costs nothing."""
    if given is None or isinstance(given, Preemption):
        return given or Preemption()
    if not isinstance(given, Mapping):
        raise InputError("preemption must be a mapping of options, such as {'restore_s': '10s'}, "
                         f"not {given!r}", "preemption")
    check_options(Preemption, given, "preemption")
    return Preemption(**given)


def on_edge(given: Preemption | Mapping[str, Any] | None) -> Preemption:
    """Make the options of preemption of whole jobs on an edge-cloud.

    By default, jobs also keep the part of an iteration, at no cost. An iteration is one mini-batch
    of each worker. Options that do not apply to an edge-cloud are refused.
    """
    options = as_preemption(given)
    default = Preemption()
    for name, reason in _NOT_ON_EDGE.items():
        if getattr(options, name) != getattr(default, name):
            raise InputError(f"preemption: {name} is for jobs on a cluster; on an edge-cloud "
                             f"{reason}", name)
    named = isinstance(given, Preemption) or (given is not None and "keep" in given)
    return options if named else replace(options, keep="fraction")
