"""How chunks train on workers: the modes of the fabric transport."""

from __future__ import annotations

from typing import Protocol

from netsim.edge.on_fabric.fluid import Fluid
from netsim.edge.on_fabric.rounds import Rounds
from netsim.edge.on_fabric.wires import EdgeTraffic
from netsim.edge.setting import Floats, Ints
from netsim.errors import InputError, UnknownNameError

__all__ = ["MODES", "PREEMPTIONS", "Training", "check_mode", "make_training"]

MODES = ("fluid", "exact", "sync")

#: What a chunk that is to stop does with its mini-batch.
PREEMPTIONS = ("finish", "drop", "pause")


class Training(Protocol):
    """Lets chunks train, each on a worker of its own, and tells `Answers` what comes of it.

    Between two mini-batches, of which it tells, others may take over; those that are still to
    train go on when `go` is called.
    """

    def begin(self, chunk: int, host: int, ps: int) -> None:
        """Let a chunk train on a host, with a PS on another or the same, once `go` is called."""

    def go(self) -> None:
        """Let those go on that are to."""

    def stop(self, chunk: int) -> bool:
        """Let a chunk train no longer; return whether it has stopped at once."""

    def left(self, chunk: int) -> float:
        """Return how many mini-batches a chunk that has begun has left, with parts of one."""

    def use(self, limit: Ints, rates: Floats) -> Floats:
        """Return the rates that flows use of those given; see `limits.RateCappedAllocator`."""


def check_mode(mode: str, preemption: str | None) -> None:
    """Refuse a mode that there is not, or what chunks that are to stop cannot do in it.

    Raises
    ------
    InputError
    """
    if mode not in MODES:
        raise UnknownNameError("mode of transport 'fabric'", mode, MODES)
    if preemption is not None and preemption not in PREEMPTIONS:
        raise UnknownNameError("preemption", preemption, PREEMPTIONS)
    if mode == "fluid" and preemption not in (None, "pause"):
        raise InputError(f"preemption {preemption!r} is for mode 'exact'; fluid mini-batches have "
                         "no bounds, and a chunk that is to stop pauses")
    if mode == "sync" and preemption not in (None, "finish"):
        raise InputError(f"preemption {preemption!r} is for mode 'exact'; where all chunks of a "
                         "job push together, one stops when it has finished its mini-batch")


def make_training(wires: EdgeTraffic, mode: str, preemption: str | None) -> Training:
    """Return what trains in a mode; see `check_mode`."""
    if mode == "fluid":
        return Fluid(wires)
    return Rounds(wires, mode == "sync", preemption or "finish")
