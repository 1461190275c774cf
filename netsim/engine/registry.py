"""Executions by name: the ways in which placed jobs run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from netsim.base.plugins import Registry, parse_policy
from netsim.base.values import known_names
from netsim.cluster.contention import Contention


@known_names
@dataclass(frozen=True)
class CoflowContention(Contention):
    """Execution as coflows on the network, under an allocator.

    Schedulers plan by the model of `Contention`, by default in continuous time, without slots.

    Parameters
    ----------
    alpha, xi1, xi2, k_min, reduce, slot, time, degradation
        As for `Contention`.
    """

    uses_links: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"whole all-reduces", "fast servers"})

    time: str = "continuous"


@dataclass(frozen=True, init=False)
class IterationTime(Contention):
    """The model by which schedulers plan jobs with fixed iteration times, as in A-SRPT."""

    needs: ClassVar[frozenset[str]] = frozenset(
        {"known iteration times", "equal servers", "no link events",
         "ideal links"})

    def __init__(self) -> None:
        super().__init__(time="continuous")


#: Constructors of the contention model of each execution, which runs jobs or is used for planning.
EXECUTIONS = Registry(
    "execution", {
        "asrpt": "netsim.engine.registry:IterationTime",
        "fabric": "netsim.engine.registry:CoflowContention",
        "rar-contention": "netsim.cluster.contention:Contention",
    },
    accepts=lambda made: isinstance(made, Contention),
    refusal="is not an execution: it must derive from netsim.cluster.Contention",
    group="executions")


def make_execution(given: str | Mapping[str, Any]) -> tuple[str, Contention]:
    """Make the contention model of an execution, by which jobs run or schedulers plan.

    Returns the name from `EXECUTIONS` as well. Instead of a name of `EXECUTIONS`, with options,
    ``"module:Class"`` may be given for a class that derives from the class of a named execution,
    and runs jobs in the same way.
    """
    name, options = parse_policy(given, "execution")
    return name, EXECUTIONS.make(name, options)
