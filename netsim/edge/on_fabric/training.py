"""How chunks train on workers: the modes of the fabric transport."""

from __future__ import annotations

from typing import Protocol

from netsim.edge.on_fabric.fluid import Fluid
from netsim.edge.on_fabric.rounds import Rounds
from netsim.edge.on_fabric.wires import Wires
from netsim.edge.setting import Floats, Ints
from netsim.errors import InputError, UnknownNameError

__all__ = ["MODES", "Training", "make_training"]

MODES = ("fluid", "exact", "sync")


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
        """Return what flows use of the rates that they are given; see `limits.AskedAlways`."""


def make_training(wires: Wires, mode: str, preemption: str | None) -> Training:
    """Return what trains in a mode.

    Raises
    ------
    InputError
        If the mode, or what chunks do that are to stop, is not allowed.
    """
    if mode not in MODES:
        raise UnknownNameError("mode of transport 'fabric'", mode, MODES)
    if mode != "fluid":
        return Rounds(wires, mode == "sync", preemption or "finish")
    if preemption not in (None, "pause"):
        raise InputError(f"preemption {preemption!r} is for mode 'exact'; fluid mini-batches have "
                         "no bounds, and a chunk that is to stop pauses")
    return Fluid(wires)
