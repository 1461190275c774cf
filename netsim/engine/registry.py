"""Executions by name: the ways in which placed jobs run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from netsim.base.plugins import Registry, parse_policy
from netsim.base.values import as_whole, convert, known_names
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


@known_names
@dataclass(frozen=True)
class Cassini(CoflowContention):
    """Execution as coflows on the network, in which jobs that share links send in turn: CASSINI.

    A job begins later by the shift in time that makes it fit best to the jobs that run already. It
    gets those GPUs, among candidates, on which it fits best.

    Parameters
    ----------
    alpha, xi1, xi2, k_min, reduce, slot, time, degradation
        As for `Contention`.
    candidates : int
        The most placements that are compared: that of the scheduler, and the same numbers of GPUs
        on other servers with equally many free GPUs, drawn at random; with 1, or if the scheduler
        chooses GPUs itself, only that of the scheduler.
    """

    candidates: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, candidates=partial(as_whole, least=1))


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
        "cassini": "netsim.engine.registry:Cassini",
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
