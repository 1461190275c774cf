"""Communication patterns of jobs, which `PATTERNS` lists by name."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from netsim.base.lazy import loading
from netsim.base.plugins import Registry
from netsim.base.values import about
from netsim.errors import InputError
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
from netsim.jobs.patterns.mixed import ModelCoflow, exchanging_in_turn, model_coflows, model_stages
from netsim.jobs.patterns.parameter_server import ParameterServer

__all__ = ["PATTERNS", "AllGather", "AllReduce", "AllToAll", "Barrier", "Broadcast", "Collective",
           "ModelCoflow", "ParameterServer", "Pattern", "Reduce", "ReduceScatter", "RingAllReduce",
           "SendRecv", "exchanging_in_turn", "is_ranked_pattern", "make_pattern", "model_coflows",
           "model_stages"]


def _makes_stages(made: Any) -> bool:
    """Whether an object has a method ``stages`` with the arguments of a pattern's."""
    if not isinstance(made, Pattern) or not callable(made.stages):
        return False
    try:
        inspect.signature(made.stages).bind("ranks", "nbytes", "rng")
    except TypeError:
        return False
    return True


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
    accepts=_makes_stages,
    refusal="is not a pattern: it needs a method stages(ranks, nbytes, rng) that returns a list of "
            "netsim.Stage", group="patterns")


def make_pattern(pattern: str | Mapping[str, Any] | Pattern | type) -> Pattern:
    """Make the pattern that a job names; an instance is returned as it is, since it has no state.

    A pattern is named by an entry of `PATTERNS` or ``"module:Class"``, with options as in
    ``"parameter-server:servers=2"``; by ``{"name": ..., option: ...}``; or by its class. Those of
    netsim are made once.
    """
    table = {"name": pattern} if isinstance(pattern, str) else pattern
    if isinstance(table, Mapping):
        if table.get("name") in PATTERNS and _KEPT.issuperset(map(type, table.values())):
            return _made(tuple((name, type(value), value) for name, value in table.items()))
    elif isinstance(pattern, Pattern) and not isinstance(pattern, type):
        return pattern
    with about("pattern"):
        made: Pattern = PATTERNS.instantiate(pattern)
    return made


#: Types of options by which patterns are kept.
_KEPT = frozenset((str, int, float, bool))


@lru_cache(maxsize=256)
@about("pattern")
def _made(options: tuple[tuple[str, type, Any], ...]) -> Pattern:
    """Make a pattern of netsim; types are in the key because True is equal to 1."""
    made: Pattern = PATTERNS.instantiate({name: value for name, _, value in options})
    return made


def is_ranked_pattern(pattern: Any) -> bool:
    """Whether the stages of a job's pattern have ranks that compute, or overlapping iterations.

    A pattern that cannot be made has none; it is an error when its stages are drawn.
    """
    try:
        return bool(getattr(make_pattern(pattern) if isinstance(pattern, str | Mapping) else
                            pattern, "ranked", False))
    except InputError:
        return False


__getattr__ = loading(__name__)
