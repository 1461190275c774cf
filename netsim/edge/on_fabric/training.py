"""The modes in which chunks train under the fabric transport."""

from __future__ import annotations

from typing import Protocol

from netsim.edge.on_fabric.fluid import Fluid
from netsim.edge.on_fabric.rounds import Rounds
from netsim.edge.on_fabric.traffic import EdgeTraffic
from netsim.edge.setting import Floats, Ints
from netsim.errors import InputError, UnknownNameError

MODES = ("fluid", "exact", "sync")

#: What a chunk that has to stop can do with its mini-batch.
PREEMPTIONS = ("finish", "drop", "pause")


class Training(Protocol):
    """Trains chunks, each on a worker of its own, and reports progress through `Callbacks`.

    After each mini-batch, it reports a pause, in which the worker may be given to another chunk.
    The chunks that keep their workers continue when `go` is called.
    """

    def restart(self, chunk: int, batches: float) -> None:
        """Set the number of mini-batches left of a chunk that is not training."""

    def begin(self, chunk: int, host: int, ps: int) -> None:
        """Prepare to train a chunk on a host, with a PS on host `ps`, once `go` is called.

        Chunks that exchange in rings have no use for `ps`.
        """

    def go(self) -> None:
        """Start or continue all chunks that are prepared or paused."""

    def stop(self, chunk: int) -> bool:
        """Stop a chunk; return whether it stopped at once.

        In mode ``"sync"``, a chunk that stops at once also stops the other chunks of its round.
        """

    def left(self, chunk: int) -> float:
        """The number of mini-batches that a chunk in training has left, with fractions."""

    def use(self, limit: Ints, rates: Floats) -> Floats:
        """The rates that flows use, given the allocated rates; see `RateCappedAllocator`."""


def check_mode(mode: str, preemption: str | None) -> None:
    """Check that a mode exists, and that it supports a kind of preemption."""
    if mode not in MODES:
        raise UnknownNameError("mode of transport 'fabric'", mode, MODES)
    if preemption is not None and preemption not in PREEMPTIONS:
        raise UnknownNameError("preemption", preemption, PREEMPTIONS)
    if mode == "fluid" and preemption not in (None, "pause"):
        raise InputError(f"preemption {preemption!r} is for mode 'exact'; in mode 'fluid', a "
                         "chunk that has to stop always pauses")
    if mode == "sync" and preemption not in (None, "finish"):
        raise InputError(f"preemption {preemption!r} is for mode 'exact'; in mode 'sync', a chunk "
                         "always finishes its mini-batch before it stops")


def make_training(traffic: EdgeTraffic, mode: str, preemption: str | None) -> Training:
    """Make the `Training` of a mode; see `check_mode`."""
    if mode == "fluid":
        return Fluid(traffic)
    return Rounds(traffic, mode == "sync", preemption or "finish")
