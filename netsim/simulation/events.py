"""Events from outside a run, such as links that fail; and the events of a run, for listeners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from netsim.base.units import Quantity, parse_rate, parse_seconds, question_units
from netsim.base.values import (
    Node,
    as_flag,
    convert,
    is_whole,
    known_names,
    optional,
    plain,
    refused,
)
from netsim.errors import InputError, at_place, not_one_of
from netsim.network import Topology
from netsim.network.live import parts_of

if TYPE_CHECKING:
    from netsim.cluster.cluster import Cluster

#: What can happen to a link or a host.
KINDS = ("degrade", "fail", "repair")


@known_names
@dataclass(frozen=True)
class FaultEvent:
    """A change of a link, or of a host or a switch and all of its links, during a run.

    Parameters
    ----------
    at : quantity
        Time of the event: ``"5s"``, or a number of seconds.
    link : str, int or tuple, optional
        Name or number of the link, or its two nodes. Exactly one of `link`, `host` and `switch`
        must be given.
    capacity : quantity, optional
        New capacity of the link, or of each link of the host or switch, if `kind` is ``"degrade"``:
        ``"1Gbps"``, or a number of bytes per second. 0 is a failure.
    host : str, int or tuple, optional
        Name or number of the host. A server of a cluster has its number, or the name
        ``"server-3"``, which on networks of `netsim.gpu_cluster` stands for all of its GPUs.
    kind : {"degrade", "fail", "repair"}
        Failed links carry nothing; repaired links get back the capacity that they had when the
        run began.
    factor : float, optional
        New capacity, as a fraction of the capacity when the run began; an alternative to
        `capacity`.
    restart : bool
        Whether the failure of a host stops the jobs on it, which later start their current
        iteration over. If False, the jobs only wait for the links of the host.
    switch : str or tuple, optional
        Name of the switch. If events change both a link and its switch, the link has the capacity
        set by the last event.

    Raises
    ------
    InputError
        If the arguments cannot be combined, or a value is not allowed.
    """

    at: Quantity
    link: Node | None = None
    capacity: Quantity | None = None
    host: Node | None = None
    kind: str = "degrade"
    factor: float | None = None
    restart: bool = False
    switch: Node | None = None

    def __post_init__(self) -> None:
        convert(self, "event", at=parse_seconds, link=lambda value, _: plain(value),
                capacity=optional(parse_rate), host=optional(_as_host), kind=_as_kind,
                factor=optional(_as_factor), restart=as_flag, switch=optional(_as_switch))
        if (self.link is None) + (self.host is None) + (self.switch is None) != 2:
            raise InputError("event: give one of link, host and switch")
        said = (self.capacity is not None) + (self.factor is not None)
        if self.kind == "degrade" and said != 1:
            raise InputError("event: to degrade, give a capacity or a factor")
        if self.kind != "degrade" and said:
            raise InputError(f"event: to {self.kind} takes no capacity and no factor")
        if self.restart and (self.host is None or self.kind != "fail"):
            raise InputError("event: restart is for a host that fails")


def _as_host(value: Any, what: str) -> Node:
    host: Node = plain(value)
    if not (isinstance(host, str | tuple) or is_whole(host)):
        raise refused(what, "a name or a whole number", host)
    return host


def _as_switch(value: Any, what: str) -> Node:
    if not isinstance(value, str | tuple):
        raise refused(what, "a name", value)
    return value


def _as_kind(value: Any, what: str) -> str:
    if not isinstance(value, str) or value not in KINDS:
        raise InputError(not_one_of(what, value, KINDS))
    return str(value)


def _as_factor(value: Any, what: str) -> float:
    with question_units(False):  # not a rate, but with the same range
        return parse_rate(value, what)


@dataclass(frozen=True)
class Change:
    """A `FaultEvent` resolved on a network."""

    at: float  #: seconds
    #: The new capacity of each link that changes, in bytes per second. Links are numbered as in
    #: `parts_of` the network, where a trunk is several links.
    capacity: Mapping[int, float]
    host: int | None
    kind: str
    restart: bool


def changes_of(events: Sequence[FaultEvent | Mapping[str, Any]], where: Topology | Cluster
               ) -> list[Change]:
    """Resolve fault events on a network, or on the network of a cluster, and sort them by time.

    If there are several, an error begins with the place of the invalid one.
    """
    network: Any = getattr(where, "network", where)  # that of a cluster
    parts = parts_of(network) if events else network
    changes: list[Change] = []
    for number, event in enumerate(events):
        try:
            changes += [_resolve(each, parts) for each in _on_hosts(event, where)]
        except InputError as error:
            if len(events) == 1:
                raise
            raise at_place(error, f"events[{number}]") from error
    return sorted(changes, key=lambda change: change.at)


def capacities_of(events: Sequence[FaultEvent | Mapping[str, Any]], network: Topology
                  ) -> list[tuple[float, int, float]]:
    """Resolve events that change only links to (seconds, link, bytes per second), in order."""
    changes = changes_of(events, network)
    for change in changes:
        if max(change.capacity, default=-1) >= network.links:
            raise InputError(f"network {network.name!r}: a trunk cannot lose members on an "
                             'edge-cloud, whose routes are fixed; take routing = "ecmp"')
    return [(change.at, *item) for change in changes for item in change.capacity.items()]


def _on_hosts(event: FaultEvent | Mapping[str, Any], where: Topology | Cluster
              ) -> list[FaultEvent]:
    """Return an event, or one for each GPU of a server that is named as a host."""
    if isinstance(event, Mapping):
        try:
            event = FaultEvent(**event)
        except TypeError:
            allowed = ", ".join(field.name for field in fields(FaultEvent))
            raise InputError(f"an event has the keys {allowed}, of which at is required, not "
                             + ", ".join(map(str, event))) from None  # type: ignore[arg-type]
    return [event] if event.host is None else [
        replace(event, host=host) for host in where.hosts_at(event.host)]


def _resolve(event: FaultEvent, network: Topology) -> Change:
    host = None if event.host is None else network.host(event.host)
    links = _links_of(event, network)
    usual = network.usable
    if event.capacity is not None:
        rate, efficiency = float(event.capacity), network.wire.efficiency
        capacity = {link: float(rate * efficiency[link]) for link in links}
    else:
        factor = {"fail": 0.0, "repair": 1.0}.get(event.kind, event.factor)
        capacity = {link: float(usual[link] * factor) for link in links}
    return Change(float(event.at), capacity, host, event.kind, event.restart)


def _links_of(event: FaultEvent, network: Topology) -> list[int]:
    """Return the links that an event changes."""
    if event.link is not None:
        return [network.link(event.link)]
    if event.host is not None:
        return network.links_of(event.host).tolist()
    assert event.switch is not None
    return network.links_of_switch(event.switch).tolist()


# --- events of a run, for listeners --------------------------------------------------------

#: What one can listen for.
EVENT_KINDS = ("job-arrived", "job-started", "job-preempted", "job-done", "coflow-valid",
               "coflow-done", "decision", "capacity")


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that happens in a run.

    Attributes
    ----------
    kind : str
        ``"job-arrived"``, ``"job-started"`` (the job has sent its first bytes; on a cluster or an
        edge-cloud, it has got GPUs or workers), ``"job-preempted"``, ``"job-done"``,
        ``"coflow-valid"`` (the coflow has become valid), ``"coflow-done"``, ``"decision"`` (of the
        allocator), or ``"capacity"`` (the capacity of a link has changed).
    at_s : float
        Simulated time of the event, in seconds. With an observe interval, the time at which the run
        notices the event.
    job, coflow : int or None
        Ids of the job and the coflow, as in the tables of results.
    link : str or None
        The name of the link whose capacity has changed.
    capacity : float or None
        The capacity of the link from now on, in bytes per second.
    """

    kind: str
    at_s: float
    job: int | None = None
    coflow: int | None = None
    link: str | None = None
    capacity: float | None = None

    def __repr__(self) -> str:
        about = ((name, getattr(self, name)) for name in ("job", "coflow", "link", "capacity"))
        said = "".join(f", {name}={value!r}" for name, value in about if value is not None)
        return f"RunEvent({self.kind!r}, at_s={self.at_s!r}{said})"
