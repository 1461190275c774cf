"""The base class of networks, `Topology`; the big switch; servers whose GPUs are the hosts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.brief import MOST_ROWS, shown
from netsim.base.display import draw
from netsim.base.lazy import nx
from netsim.base.units import format_count
from netsim.base.values import (
    Node,
    about,
    as_flag,
    as_name,
    as_whole,
    is_whole,
    known_names,
    node_name,
    plain,
    refuse_set,
    refuse_twice,
)
from netsim.errors import InputError, UnknownNameError, did_you_mean
from netsim.network.routing import Hashes, ShortestPaths
from netsim.network.wire import Wire

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class GpuServers:
    """The servers of a network whose hosts are GPUs, which are numbered server by server.

    Attributes
    ----------
    gpus : int
        GPUs of each server: host s * gpus + r is GPU r of server s.
    nvlink : float
        Rate of a GPU's NVLink port, in bytes per second.
    nic : float
        Rate of a NIC, in bytes per second.
    nics : int
        Number of NICs per server.
    rails : int
        NIC k of each server is on rail k % rails.
    generation : str
        Generation of the GPUs; see `netsim.collectives.NcclCosts`.
    """

    gpus: int
    nvlink: float
    nic: float
    nics: int
    rails: int
    generation: str

    def server_of(self, hosts: Ints) -> Ints:
        """Return the server of each of some hosts."""
        return hosts // self.gpus

    def by_name(self, hosts: int) -> dict[str, range]:
        """Return the hosts of each server by its name, for a network of `hosts` hosts."""
        return {f"server-{host // self.gpus}": range(host, host + self.gpus)
                for host in range(0, hosts, self.gpus)}

    def relays(self, src: Ints, dst: Ints) -> Ints:
        """Return the GPU through which each flow reaches the rail of its destination.

        This is the GPU of the source's server that has the same position as the destination has in
        its server. If source and destination share a rail or a server, it is the source itself.
        """
        near = self.server_of(src) == self.server_of(dst)
        direct = near | (self._rail_of(src) == self._rail_of(dst))
        return np.where(direct, src, self.server_of(src) * self.gpus + dst % self.gpus)

    def _rail_of(self, hosts: Ints) -> Ints:
        return hosts % self.gpus // (self.gpus // self.nics) % self.rails


class GpuPaths:
    """The shortest paths between GPUs of servers: by NVLink, or over their NICs and a rail.

    `ShortestPaths` would find the same paths, but more slowly: it would search from each GPU,
    because a GPU has two ports. Here, it finds only paths from one switch of a rail to another.
    GPUs must come first among the `nodes`.
    """

    def __init__(self, servers: GpuServers, nodes: Mapping[str, int], tail: Ints, head: Ints,
                 shortest: ShortestPaths) -> None:
        self._servers, self._shortest, self._nodes = servers, shortest, len(nodes)
        self._boxes, self._nics = (
            np.array([node for name, node in nodes.items() if name.startswith(kind)])
            for kind in ("server-", "nic-"))
        code = tail * self._nodes + head
        self._order = np.argsort(code, kind="stable")
        self._code = code[self._order]
        # The only link from a NIC that does not lead to a GPU is that to its rail.
        self._switch = np.full(self._nodes, -1)
        up = head >= len(self._boxes) * servers.gpus
        self._switch[tail[up]] = head[up]

    def _nic_of(self, hosts: Ints) -> Ints:
        """Return the nodes of the NICs of some GPUs."""
        servers = self._servers
        own = hosts % servers.gpus // (servers.gpus // servers.nics)
        return self._nics[servers.server_of(hosts) * servers.nics + own]

    def _link(self, start: Ints, end: Ints) -> Ints:
        """Return the link from one node to another."""
        return self._order[np.searchsorted(self._code, start * self._nodes + end)]

    def walk(self, src: Ints, dst: Ints, hashes: Hashes | None) -> Iterator[tuple[Ints, Ints]]:
        """Yield, hop by hop, the flows that take a link, and that link; see `ShortestPaths.walk`.

        The GPUs of a pair must differ. Those of different servers must share a rail, unless the
        network has spines.
        """
        inside = self._servers.server_of(src) == self._servers.server_of(dst)
        near, far = np.flatnonzero(inside), np.flatnonzero(~inside)
        box = self._boxes[self._servers.server_of(src[near])]
        yield near, self._link(src[near], box)
        yield near, self._link(box, dst[near])
        src, dst = src[far], dst[far]
        nic, other = self._nic_of(src), self._nic_of(dst)
        switch, goal = self._switch[nic], self._switch[other]
        yield far, self._link(src, nic)
        yield far, self._link(nic, switch)
        across = np.flatnonzero(switch != goal)
        for part, link in self._shortest.walk(switch[across], goal[across],
                                              None if hashes is None else hashes[far[across]]):
            yield far[across[part]], link
        yield far, self._link(goal, other)
        yield far, self._link(other, dst)


# --- networks ------------------------------------------------------------------------------

#: The switch, among the nodes of the graph of a big switch.
_SWITCH = "switch"


@known_names
class Topology:
    """Hosts connected by directed links; the base class of all networks.

    A subclass passes its links to this constructor and implements `routes`.

    Parameters
    ----------
    name : str
        A label.
    hosts : int
        Number of hosts, which are numbered from 0.
    capacity : array_like of float, shape (links,)
        Capacity of each link, in bytes per second; finite and positive.
    link_names : sequence of str
        One unique name per link.
    loopback_uses_ports : bool
        Whether a flow from a host to itself crosses the host's own links. If not, such a flow is
        free: it completes when it becomes valid, and its bytes are not counted.
    wire : Wire, optional
        Latency, efficiency and packets of the links, and the overhead of stages; by default
        nothing.

    Raises
    ------
    InputError
        If there is no host, a capacity is invalid, or two links have the same name.

    Attributes
    ----------
    usable : ndarray of float, shape (links,)
        What flows can use of the capacity: `capacity` times the efficiency of each link.
    gpu_servers : GpuServers or None
        The servers, if the hosts are the GPUs of servers; see `netsim.gpu_cluster`.
    """

    gpu_servers: GpuServers | None = None
    _ways_to_name: ClassVar[str] = ""  # for a message about a name, where hosts have none

    def __init__(self, name: str, hosts: int, capacity: ArrayLike, link_names: Sequence[str], *,
                 loopback_uses_ports: bool = False, wire: Wire | None = None) -> None:
        self.name = as_name(name, "network: name")
        self.hosts = as_whole(hosts, f"network {name!r}: hosts", 1)
        self.link_names = tuple(link_names)
        self.capacity = np.array(capacity, dtype=np.float64)
        self.capacity.flags.writeable = False
        self.loopback_uses_ports = as_flag(loopback_uses_ports,
                                           f"network {name!r}: loopback_uses_ports")
        if self.capacity.shape != (len(self.link_names),):
            raise InputError(f"network {name!r}: {len(self.link_names)} links, but capacities "
                             f"of shape {self.capacity.shape}", "capacity")
        bad = np.flatnonzero(~(np.isfinite(self.capacity) & (self.capacity > 0)))
        if len(bad):
            raise InputError(f"network {name!r}: link {self.link_names[bad[0]]!r} has the "
                             f"capacity {self.capacity[bad[0]]!r} bytes/s; it must be positive",
                             "capacity")
        if len(self._link_ids) != len(self.link_names):
            twice = next(each for link, each in enumerate(self.link_names)
                         if self._link_ids[each] != link)
            raise InputError(f"network {name!r}: two links are named {twice!r}", "link_names")
        self.wire = wire or Wire(self.links)

    @property
    def cables(self) -> Topology:
        """The network of single links, if this is a network of trunks; otherwise this network."""
        return self

    @cached_property
    def trunk_of(self) -> Ints:
        """For each link of `cables`, the same link in this network, or the trunk of the link."""
        return np.arange(self.links)

    def set_wire(self, wire: Wire) -> None:
        """Set the latency, efficiency and packets of the links of `cables`."""
        self.wire = wire

    @property
    def usable(self) -> Floats:
        if self.wire.ideal or (self.wire.efficiency == 1).all():
            return self.capacity
        usable = self.capacity * self.wire.efficiency
        usable.flags.writeable = False
        return usable

    @property
    def usable_parts(self) -> Floats:
        """A copy of `usable`; of a network of trunks, also that of the members of trunks."""
        return self.usable.copy()

    @property
    def links(self) -> int:
        """Number of links."""
        return len(self.link_names)

    @cached_property
    def _link_ids(self) -> dict[str, int]:
        return {name: link for link, name in enumerate(self.link_names)}

    def link(self, name: Node) -> int:
        """Return the id of a link given by name or id, or by its two nodes.

        Two nodes with parallel links between them stand for the first of these links.

        Raises
        ------
        InputError
            If there is no such link.
        """
        name = self._link_name(name)
        link = self._link_ids.get(name, -1) if isinstance(name, str) else plain(name)
        if not is_whole(link) or not 0 <= link < self.links:
            such = (f", such as {self.link_names[0]!r} and {self.link_names[-1]!r}"
                    if self.links else "")
            near = did_you_mean(name, self.link_names) if isinstance(name, str) else ""
            raise InputError(f"network {self.name!r} has no link {plain(name)!r}{near}; "
                             f"it has {self.links}{such}")
        return int(link)

    def _link_name(self, name: Any) -> Any:
        """Return the name of a link given by its two nodes; return other arguments unchanged."""
        if not isinstance(name, tuple):
            return name
        return self._names_between.get(tuple(map(str, name)), name)

    @cached_property
    def _names_between(self) -> dict[tuple[str, ...], str]:
        """The name of the first link between each pair of nodes, by the names of the nodes."""
        try:
            graph = self.to_networkx()
        except NotImplementedError:
            return {}
        found: dict[tuple[str, ...], str] = {}
        for start, end, name in graph.edges(data="name"):
            found.setdefault((str(start), str(end)), name)
        return found

    def route(self, src: Node, dst: Node, key: int = 0) -> Ints:
        """Return the ids of the links on the path of one flow; `key` chooses among equal paths.

        Hosts are given by name or number; see `host`.
        """
        return self.routes(self.host_numbers([src]), self.host_numbers([dst]), np.array([key]))[1]

    def routes(self, src: Ints, dst: Ints, key: Ints) -> tuple[Ints, Ints]:
        """Return the paths of many flows, in compressed rows.

        Parameters
        ----------
        src, dst : ndarray of int, shape (flows,)
            Source and destination hosts.
        key : ndarray of int, shape (flows,)
            Keys that choose among equal paths (ECMP); flows between the same hosts with the same
            key take the same path.

        Returns
        -------
        ptr : ndarray of int, shape (flows + 1,)
        links : ndarray of int, shape (ptr[-1],)
            Flow f crosses ``links[ptr[f]:ptr[f + 1]]``, which is empty for a free loopback flow.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement routes")

    def _check_range(self, *hosts: Ints) -> None:
        for host in hosts:
            outside = host[(host < 0) | (host >= self.hosts)]
            if len(outside):
                raise InputError(f"host {outside[0]} is out of range: network {self.name!r} has "
                                 f"the hosts 0 to {self.hosts - 1}")

    def wire_bytes(self, nbytes: Floats, src: Ints, dst: Ints, key: Ints, ptr: Ints, links: Ints,
                   messages: Ints | int = 1) -> Floats:
        """Return the bytes on the wire of flows, given their payload and the paths from `routes`.

        The array has shape (flows,). `messages` counts the messages of each flow. Paths are the
        usual ones of the flows, even while they take others because of dead links.
        """
        return self.wire.bytes_of(nbytes, ptr, links, messages)

    def host(self, name: Node) -> int:
        """Return the number of a host given by name or number.

        A node of a networkx graph that is a tuple can be given as the tuple or as its text. A whole
        number always means the position among the hosts: if nodes are numbers, ``"7"`` names node
        7.

        Raises
        ------
        InputError
            If there is no such host.
        """
        name = node_name(name)
        host = self._node_ids.get(name, -1) if isinstance(name, str) else plain(name)
        if not is_whole(host) or not 0 <= host < self.hosts:
            such = f" and named such as {self.host_names[0]!r}" if self.host_names else ""
            near = ""
            if isinstance(name, str):
                near = (", which is a switch" if name in self._node_ids else
                        did_you_mean(name, self.host_names))
            elif str(name) in self.host_names:
                near = f", but one that is named {str(name)!r}"
            way = self._ways_to_name if isinstance(name, str) and not self.host_names else ""
            raise InputError(f"network {self.name!r} has no host {plain(name)!r}{near}; it has "
                             f"{self.hosts}, numbered from 0{such}{way}")
        return int(host)

    def hosts_at(self, name: Node) -> Sequence[int]:
        """Return the number of a host, or the numbers of all GPUs of a server given by name.

        Raises
        ------
        InputError
            If there is no such host, and no such server.
        """
        servers = {} if self.gpu_servers is None else self.gpu_servers.by_name(self.hosts)
        if isinstance(name, str) and name in servers:
            return servers[name]
        try:
            return [self.host(name)]
        except InputError as error:
            if not servers:
                raise
            raise InputError(f"{error}; its {len(servers)} servers are named such as "
                             f"{next(iter(servers))!r}") from None

    def host_numbers(self, hosts: Iterable[Node]) -> Ints:
        """Return the numbers of some hosts given by name or number; see `host`."""
        refuse_set(hosts, "hosts")
        return np.array([self.host(each) for each in hosts], np.int64)

    @cached_property
    def host_names(self) -> tuple[str, ...]:
        """The names of the hosts, in order; empty if hosts only have numbers."""
        names = tuple(islice(self._node_ids, self.hosts))
        theirs = [self._node_ids[name] for name in names] == list(range(self.hosts))
        return names if theirs and names != tuple(map(str, range(self.hosts))) else ()

    @property
    def misleading(self) -> frozenset[int]:
        """The host numbers that, written as text, are the name of another node."""
        return frozenset()

    @cached_property
    def _node_ids(self) -> Mapping[str, int]:
        """Numbers of hosts, then of switches, by their names; empty if there are none."""
        try:
            graph = self.to_networkx()
        except NotImplementedError:
            return {}
        return {str(node): number for number, node in enumerate(graph)
                if isinstance(node, str | tuple)}

    def links_of(self, host: Node) -> Ints:
        """Return the links that lead from or to a host, given by name or number.

        Raises
        ------
        InputError
            If there is no such host.
        """
        return self._links_of_nodes[self.host(host)]

    def links_of_switch(self, name: Node) -> Ints:
        """Return the links that lead from or to a switch given by name, or by its node.

        Raises
        ------
        InputError
            If there is no such switch.
        """
        name = str(name)
        switches = [each for each, number in self._node_ids.items() if number >= self.hosts]
        if not switches:
            raise InputError(f"network {self.name!r} has no switch {name!r}; its switches have no "
                             "names")
        if name not in switches:
            raise UnknownNameError(f"switch of network {self.name!r}", name, switches)
        return self._links_of_nodes[self._node_ids[name]]

    @cached_property
    def _links_of_nodes(self) -> list[Ints]:
        """The links of each host, and then of each switch."""
        graph = self.to_networkx()
        links: dict[Hashable, set[int]] = {node: set() for node in graph}
        for start, end, name in graph.edges(data="name"):
            for node in (start, end):
                links[node].add(self.link(name))
        return [np.array(sorted(each), np.int64) for each in links.values()]

    @property
    def avoidable(self) -> Bools:
        """Mask of the links that flows can avoid if dead, shape (links,); none by default."""
        return np.zeros(self.links, np.bool_)

    def to_networkx(self) -> nx.DiGraph:
        """Return the network as a graph, from which `from_networkx` makes an equal network.

        Hosts come first, in order, with the attribute ``host=True``; edges have ``name`` and
        ``capacity`` (bytes/s).
        """
        raise NotImplementedError(f"{type(self).__name__} must implement to_networkx")

    @known_names
    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the network: its nodes and links or, if they are too many, a matrix of its links.

        See `netsim.plots.topology.topology_picture`.

        Parameters
        ----------
        ax : Axes, optional
            Axes to draw on; by default those of a new figure.

        Returns
        -------
        Axes

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed.
        InputError
            If `ax` is not an Axes.

        Examples
        --------
        >>> import netsim
        >>> netsim.leaf_spine(4, 2, 4, "10Gbps").plot().get_title()
        'leaf-spine'
        """
        return draw(self, None, "network", None, ax)

    def __repr__(self) -> str:
        return (f"<{type(self).__name__} {self.name!r}: {format_count(self.hosts, 'host')}, "
                f"{format_count(self.links, 'link')}>")

    def _repr_html_(self) -> str:
        first, wire = slice(MOST_ROWS), self.wire
        return shown(repr(self), {
            "link": self.link_names[first], "capacity (Gbps)": self.capacity[first] / 1.25e8,
            "latency (us)": wire.latency[first] * 1e6, "efficiency": wire.efficiency[first],
            }, self.links)


@known_names
class BigSwitch(Topology):
    """A non-blocking switch: host i sends through link i and receives through link hosts+i.

    Parameters
    ----------
    egress, ingress : array_like of float, shape (hosts,)
        Capacities of the ports by which each host sends and receives, in bytes per second.
    name : str
        A label.
    loopback_uses_ports : bool
        See `Topology`.
    hosts : sequence of str
        Names of the hosts, by which flows and links may name them; by default they have none.
    """

    _ways_to_name = "; give it names, as in netsim.big_switch(hosts=['node-0', 'node-1'])"

    def __init__(self, egress: ArrayLike, ingress: ArrayLike, *, name: str = "big-switch",
                 loopback_uses_ports: bool = False, hosts: Sequence[str] = ()) -> None:
        out, into = np.asarray(egress, dtype=np.float64), np.asarray(ingress, dtype=np.float64)
        if out.shape != into.shape or out.ndim != 1:
            raise InputError(f"network {name!r}: egress and ingress capacities must be lists of "
                             f"one length, not of shapes {out.shape} and {into.shape}")
        self._nodes = tuple(hosts) or range(len(out))
        if len(self._nodes) != len(out):
            raise InputError(f"network {name!r}: {len(self._nodes)} names for {len(out)} hosts",
                             "hosts")
        if hosts:
            self._check_hosts(name, hosts)
        names = [f"{port}-{host}" for port in ("egress", "ingress") for host in self._nodes]
        super().__init__(name, len(out), np.concatenate((out, into)), names,
                         loopback_uses_ports=loopback_uses_ports)

    @staticmethod
    @about("hosts")
    def _check_hosts(name: str, hosts: Sequence[str]) -> None:
        for host in hosts:
            if as_name(host, f"network {name!r}: the name of a host").isdecimal():
                raise InputError(f"network {name!r}: {host!r} names a host, but looks like the "
                                 "number of one")
        refuse_twice((*hosts, _SWITCH), f"network {name!r}: two nodes are named")

    def routes(self, src: Ints, dst: Ints, key: Ints) -> tuple[Ints, Ints]:
        """Return the egress of src and the ingress of dst for each flow; see `Topology.routes`."""
        pairs = np.empty((len(src), 2), np.int64)
        pairs[:, 0] = src
        np.add(dst, self.hosts, out=pairs[:, 1])
        crosses = src != dst
        if self.loopback_uses_ports or crosses.all():
            return np.arange(0, pairs.size + 1, 2), pairs.ravel()
        return np.concatenate(([0], np.cumsum(2 * crosses))), pairs[crosses].ravel()

    @property
    def _node_ids(self) -> Mapping[str, int]:
        # The switch is left out: it is the only one, and needs no name.
        return {node: number for number, node in enumerate(self._nodes) if isinstance(node, str)}

    def to_networkx(self) -> nx.DiGraph:
        """Return a star graph around the node ``"switch"``; see `Topology.to_networkx`."""
        graph = nx.DiGraph(name=self.name)
        graph.add_nodes_from(self._nodes, host=True)
        for host, node in enumerate(self._nodes):
            into = self.hosts + host
            graph.add_edge(node, _SWITCH, name=self.link_names[host],
                           capacity=float(self.capacity[host]))
            graph.add_edge(_SWITCH, node, name=self.link_names[into],
                           capacity=float(self.capacity[into]))
        return graph
