"""Communication patterns of jobs, which `PATTERNS` lists by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netsim.jobs.patterns.base import Pattern
from netsim.jobs.patterns.collective import (
    AllGather,
    AllReduce,
    AllToAll,
    Barrier,
    Broadcast,
    Collective,
    Reduce,
    ReduceScatter,
    RingAllReduce,
    SendRecv,
)
from netsim.jobs.patterns.mixed import (
    ModelCoflow,
    exchanging_in_turn,
    model_coflows,
    model_stages,
)
from netsim.jobs.patterns.parameter_server import ParameterServer
from netsim.lazy import loading
from netsim.plugins import Registry

__all__ = ["PATTERNS", "AllGather", "AllReduce", "AllToAll", "Barrier", "Broadcast", "Collective",
           "ModelCoflow", "ParameterServer", "Pattern", "Reduce", "ReduceScatter", "RingAllReduce",
           "SendRecv", "exchanging_in_turn", "make_pattern", "model_coflows", "model_stages"]

PATTERNS = Registry(
    "pattern", {
        "all-gather": "netsim.jobs.patterns.collective:AllGather",
        "all-reduce": "netsim.jobs.patterns.collective:AllReduce",
        "all-to-all": "netsim.jobs.patterns.collective:AllToAll",
        "barrier": "netsim.jobs.patterns.collective:Barrier",
        "broadcast": "netsim.jobs.patterns.collective:Broadcast",
        "parameter-server": "netsim.jobs.patterns.parameter_server:ParameterServer",
        "reduce": "netsim.jobs.patterns.collective:Reduce",
        "reduce-scatter": "netsim.jobs.patterns.collective:ReduceScatter",
        "ring-all-reduce": "netsim.jobs.patterns.collective:RingAllReduce",
        "send-recv": "netsim.jobs.patterns.collective:SendRecv",
    },
    accepts=lambda made: isinstance(made, Pattern),
    refusal="is not a pattern: it has no method stages")


def make_pattern(pattern: str | Mapping[str, Any] | Pattern | type) -> Pattern:
    """Make the pattern that a job names.

    Parameters
    ----------
    pattern : str, mapping, class or Pattern
        A name of `PATTERNS`, or ``"module:Class"``, with options as in
        ``"parameter-server:servers=2"``; ``{"name": ..., option: ...}``; a class; or an instance,
        which is returned as it is, since patterns have no state.

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist; the choices are listed.
    InputError
        If the object is not a pattern.
    """
    if isinstance(pattern, Pattern) and not isinstance(pattern, type):
        return pattern
    made: Pattern = PATTERNS.instantiate(pattern)
    return made


__getattr__ = loading(__name__)
