"""Kinds of transports of edge-clouds, by name and with their options."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from netsim.base.plugins import Registry
from netsim.base.values import as_choice, convert, known_names, optional
from netsim.errors import InputError

if TYPE_CHECKING:
    from netsim.edge.backend import EdgeBackend
    from netsim.edge.on_fabric.links import LinkSettings
    from netsim.edge.setting import EdgeSetting
    from netsim.edge.transport import Transport


class TransportKind(Protocol):
    """A kind of transport with its options, which makes the transport of each run.

    A kind that also supports schedulers of whole jobs has ``backend(setting, sharing)``, which
    makes the `netsim.edge.backend.EdgeBackend` of a run, and ``why_not_whole``, which says why
    whole jobs cannot run with these options; None if they can.
    """

    #: Whether the transport simulates links, which need an allocator. The transport and the back
    #: end of a run then have ``links``, an `netsim.edge.on_fabric.links.EdgeLinks`.
    shares_links: ClassVar[bool]

    def begin(self, setting: EdgeSetting, sharing: LinkSettings) -> Transport:
        """Make the transport of one run."""


@dataclass(frozen=True)
class ConstantTransport:
    """Uploads and exchanges take the constant times that jobs declare, and never contend."""

    shares_links: ClassVar[bool] = False
    why_not_whole: ClassVar[str | None] = None

    def begin(self, setting: EdgeSetting, sharing: LinkSettings) -> Transport:
        from netsim.edge.transport import Constant

        return Constant(setting)

    def backend(self, setting: EdgeSetting, sharing: LinkSettings) -> EdgeBackend:
        from netsim.edge.backend import EdgeBackend

        return EdgeBackend(setting)


MODES = ("fluid", "exact", "sync")

#: What a chunk that has to stop can do with its mini-batch.
PREEMPTIONS = ("finish", "drop", "pause")


@known_names
@dataclass(frozen=True)
class FabricTransport:
    """Uploads and exchanges are flows over the links of an edge-cloud, under an allocator.

    The upload of a chunk is a flow of its bytes from the site of its job. Its rate is limited so
    that it takes at least the upload delay of the job. A chunk is ready when its own flow has
    ended, although all uploads of a job are one coflow. A worker pushes gradients to the parameter
    server (PS) of the job and pulls parameters from it, each at most at the job's bandwidth.
    Schedulers still use estimates: the upload delays that jobs declare, and the time that the
    remaining mini-batches take at the declared bandwidth.

    With rings instead of PSs, those chunks of a job that are in training form the ring. It goes
    from server to server and enters each once. Each worker sends to the next the bytes of an
    all-reduce among these workers, at most at the job's bandwidth. Chunks join and leave between
    two mini-batches, in ``"fluid"`` at any time. A chunk that trains alone exchanges nothing.

    Parameters
    ----------
    mode : {"fluid", "exact", "sync"}
        ``"exact"``: each mini-batch is computed, pushed, updated and pulled, where push and pull
        are coflows of one flow. ``"sync"``: the chunks of a job that are in training push in one
        coflow, the update begins when it has arrived, and they pull in one coflow. With rings,
        ``"exact"`` and ``"sync"`` are the same: all chunks compute, the all-reduce is one coflow,
        and then all make the update. ``"fluid"``: a chunk pushes and pulls continuously while it
        trains, and the rates of these two flows determine the duration of a mini-batch; this takes
        a few events per chunk rather than per mini-batch.
    preemption : {"finish", "drop", "pause"}, optional
        What a displaced chunk does with its current mini-batch. ``"finish"``: finish it first (the
        default in the modes ``"exact"`` and ``"sync"``). ``"drop"``: stop at once, and repeat it
        later. ``"pause"``: stop at once, and resume it later (the only choice in ``"fluid"``).
        Outside of ``"fluid"``, jobs with rings support only ``"finish"``.

    Raises
    ------
    InputError
        If the mode or `preemption` is invalid.
    """

    shares_links: ClassVar[bool] = True

    mode: str = "fluid"
    preemption: str | None = None

    def __post_init__(self) -> None:
        convert(self, mode=partial(as_choice, choices=MODES),
                preemption=optional(partial(as_choice, choices=PREEMPTIONS)))
        if self.mode == "fluid" and self.preemption not in (None, "pause"):
            raise InputError(f"preemption {self.preemption!r} is for mode 'exact'; in mode "
                             "'fluid', a chunk that has to stop always pauses", "preemption")
        if self.mode == "sync" and self.preemption not in (None, "finish"):
            raise InputError(f"preemption {self.preemption!r} is for mode 'exact'; in mode 'sync', "
                             "a chunk always finishes its mini-batch before it stops",
                             "preemption")

    def begin(self, setting: EdgeSetting, sharing: LinkSettings) -> Transport:
        from netsim.edge.on_fabric.chunks_on_links import ChunksOnLinks

        return ChunksOnLinks(setting, sharing, self.mode, self.preemption)

    def backend(self, setting: EdgeSetting, sharing: LinkSettings) -> EdgeBackend:
        from netsim.edge.backend import JobsOnLinks

        return JobsOnLinks(setting, sharing, self.mode)

    @property
    def needs(self) -> frozenset[str]:
        """What these options need of a run; see `netsim.simulation.needs.NEEDS`."""
        alone = self.mode == "exact" and self.preemption in ("drop", "pause")
        return frozenset({"exchanges with a PS"} if alone else ())

    @property
    def why_not_whole(self) -> str | None:
        """Why schedulers of whole jobs do not support these options; None if they do."""
        if self.preemption in (None, "pause"):
            return None
        return (f"preemption {self.preemption!r} is for schedulers of chunks; a whole job always "
                "pauses")


#: The transports; see `TransportKind`.
TRANSPORTS = Registry(
    "transport", {
        "constant": "netsim.edge.registry:ConstantTransport",
        "fabric": "netsim.edge.registry:FabricTransport",
    },
    accepts=lambda made: hasattr(made, "begin") and hasattr(made, "shares_links"),
    refusal="is not a transport: it needs a method begin, and shares_links",
    group="transports")


def make_transport(given: Any) -> TransportKind:
    """Make a kind of transport from a name with options, such as ``"fabric:mode=exact"``."""
    made: TransportKind = TRANSPORTS.instantiate(given)
    return made
