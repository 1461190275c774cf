"""Executions, how placed jobs run, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from netsim.cluster.contention import Contention
from netsim.plain import plain_numbers
from netsim.plugins import Registry, parse_policy

__all__ = ["EXECUTIONS", "CoflowContention", "IterationTime", "make_execution"]


@plain_numbers
@dataclass(frozen=True)
class CoflowContention(Contention):
    """As coflows on the network, under an allocator.

    Parameters
    ----------
    alpha, xi1, xi2, k_min, reduce, slot, time
        As for `Contention`, by which schedulers plan; there are no slots unless `time` says so.
    """

    uses_links: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"whole all-reduces", "fast servers"})

    time: str = "continuous"


@dataclass(frozen=True, init=False)
class IterationTime(Contention):
    """Models by the time of an iteration on their GPUs, as A-SRPT has it."""

    needs: ClassVar[frozenset[str]] = frozenset(
        {"known iteration times", "equal servers", "no link events"})

    def __init__(self) -> None:
        super().__init__(time="continuous")


#: What makes the contention model of each: the one that runs jobs, or that schedulers plan by.
EXECUTIONS = Registry(
    "execution", {
        "asrpt": "netsim.engine.registry:IterationTime",
        "fabric": "netsim.engine.registry:CoflowContention",
        "rar-contention": "netsim.cluster.contention:Contention",
    },
    accepts=lambda made: isinstance(made, Contention),
    refusal="is no execution: it must derive from netsim.cluster.Contention")


def make_execution(given: str | Mapping[str, Any]) -> tuple[str, Contention]:
    """Make the contention model by which placed jobs run, or schedulers plan.

    Parameters
    ----------
    given : str or mapping
        A name of `EXECUTIONS`, or ``"module:Class"`` of a class that derives from one of theirs,
        and runs jobs as that does; with options as in ``"rar-contention:time=continuous"``; or
        ``{"name": ..., option: ...}``.

    Returns
    -------
    name : str
    model : Contention

    Raises
    ------
    UnknownNameError
        If the name or an option does not exist.
    InputError
        If an option has a value that is not allowed.
    """
    name, options = parse_policy(given, "execution")
    return name, EXECUTIONS.make(name, options)
