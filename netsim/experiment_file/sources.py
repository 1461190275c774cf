"""Tables that build the network, the cluster, the edge-cloud and the workload of an experiment."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import (
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    WithJsonSchema,
    model_validator,
)

from netsim import network as networks
from netsim import traces
from netsim.cluster import Cluster
from netsim.cluster import draw_gpus as drawn
from netsim.edge import EdgeCloud, EdgeWorkload
from netsim.edge.files import EDGE_CLOUDS, EDGE_JOBS
from netsim.errors import InputError, UnknownNameError
from netsim.experiment_file.tables import OpenTable, Table
from netsim.experiment_file.values import (
    KeyErrors,
    Seconds,
    build,
    check_digest,
    pinned,
    quantity_schema,
)
from netsim.jobs.patterns import make_pattern
from netsim.network.files import network_description
from netsim.traces.files import UnknownTableError
from netsim.traces.formats import Request, resolve
from netsim.workload import Workload
from netsim.workload.job import column

#: Keys that stand for a format of the same name, and the option that each gives.
_SHORT = {"llm": "model", "pattern": "pattern"}


class _SourceTable(OpenTable):
    """A table that describes something to read or to build.

    `name` is that of a ready-made description. Together with `file`, or with keys that describe how
    to build it, the name is only a label.
    """

    name: str | None = None  #: of a ready-made one; with a file or a kind, a label
    file: str | None = None  #: path of a file to read, relative to the experiment file
    sha256: str | None = None  #: expected digest of `file`


class NetworkTable(_SourceTable):
    """``[network]``: a ready-made network, a file, or a kind, with options.

    All keys without a field are options of the kind's builder in `netsim.network.TOPOLOGIES`.
    """

    kind: str | None = None  #: of network to build with the options, or ``"module:function"``
    _built: networks.Topology = PrivateAttr()

    @model_validator(mode="after")
    def _build(self) -> NetworkTable:
        needed = [] if self.kind is None else _required(self.kind)
        self._built = build(_network, self.given, (*needed, "file", "kind", "name"))
        return self

    @property
    def built(self) -> networks.Topology:
        """The network."""
        return self._built

    def resolved(self) -> dict[str, Any]:
        """Complete the table with the options of a TOML description and all defaults."""
        table = self.given
        if self.file is not None and Path(self.file).suffix != ".toml":
            return table | pinned(self.file)
        if self.kind is None:
            _, description = network_description(table.pop("file", self.name))
            table.pop("sha256", None)
            if "file" in description:  # of a graph, beside the description
                description |= pinned(description["file"])
            table = description | table | {"name": self._built.name}
        options = networks.TOPOLOGIES.options(table["kind"])
        return {"kind": table["kind"]} | _defaults(options) | table


def _network(*, kind: str | None = None, file: str | None = None, name: str | None = None,
             sha256: str | None = None, **options: Any) -> networks.Topology:
    if file is not None and kind is not None and "file" not in networks.TOPOLOGIES.options(kind):
        raise InputError("give either kind or file, not both", "file")
    check_digest(file, sha256)
    if kind is None and file is None:
        return networks.read_network(_ready_made("network", name, networks.ready_made()),
                                     **options)
    label = {} if name is None else {"name": name}
    if file is not None and kind is None:
        return networks.read_network(Path(file), **label, **options)
    if file is not None:
        options["file"] = file
    return networks.make_network(str(kind), **label, **options)


class EdgeCloudTable(OpenTable):
    """``[edge_cloud]``: a ready-made edge-cloud, a file, or a kind; and options.

    All keys other than those below are options.
    """

    name: str | None = None  #: of a ready-made one; with a file or a kind, a label
    file: str | None = None  #: path of a file to read, relative to the experiment file
    kind: str | None = None  #: of edge-cloud to make with the options
    seed: int = 0  #: of edge-clouds drawn at random; by default, that of the experiment
    _built: EdgeCloud = PrivateAttr()

    @model_validator(mode="after")
    def _build(self) -> EdgeCloudTable:
        self._built = build(lambda seed=0, **options: EDGE_CLOUDS.make(options, seed=seed),
                            self.given, ("workers", "file", "kind", "name"))
        return self

    def on(self, network: networks.Topology | None) -> EdgeCloud:
        """Make the edge-cloud, on a given network or on one made from its own links."""
        return self._built if network is None else replace(self._built, topology=network)

    def resolved(self) -> dict[str, Any]:
        """Complete the table with the contents of its file and all defaults."""
        return EDGE_CLOUDS.full(self.given, defaults=True)


class WorkloadTable(_SourceTable):
    """``[workload]``: a ready-made workload, a file, or a generator, with options.

    All keys without a field are options of `netsim.read_workload`. The name of a ready-made
    workload is not taken as a label of a file, which keeps its own.

    Without a name, a file and a format, the key ``llm`` stands for the format ``llm`` with this
    ``model``, and ``pattern`` for the format ``pattern``. A name beside ``llm`` is the job's.
    """

    format: str | None = None  #: to read or generate jobs, or ``"module:function"``
    seed: int = 0  #: of everything random in the workload; by default, that of the experiment
    _request: Request = PrivateAttr()
    _built: Workload = PrivateAttr()
    _of_edge: bool = PrivateAttr(default=False)
    _edge_jobs: tuple[EdgeCloud, EdgeWorkload] | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _written_out(cls, table: Any) -> Any:
        if not isinstance(table, Mapping) or {"file", "format"} & table.keys():
            return table
        if "name" in table:
            if "llm" not in table:
                return table
            table = {**table, "job_name": table["name"]}
            del table["name"]
        for key, option in _SHORT.items():
            if key in table:
                if key != option and option in table:
                    raise InputError(f"give either {key} or {option}, not both")
                others = {name: value for name, value in table.items() if name != key}
                return {"format": key, option: table[key]} | others
        return table

    @model_validator(mode="after")
    def _build(self) -> WorkloadTable:
        self._of_edge = EDGE_JOBS.includes(self.given)
        if self._of_edge:
            return self  # they are made on their edge-cloud
        needed = () if self.format is None else _required_options(self.format)
        self._request, self._built = build(_workload, self.given,
                                           (*needed, "file", "name", "format"))
        return self

    @property
    def built(self) -> Workload:
        """The workload of a network or a cluster."""
        if self._of_edge:
            raise InputError("these are jobs of an edge-cloud; there is no [edge_cloud]")
        return self._built

    @property
    def parts(self) -> dict[str, Workload]:
        """The workload, in a mapping with the single key "", as for `WorkloadList.parts`."""
        return {"": self.built}

    def on(self, system: EdgeCloud) -> EdgeWorkload:
        """Make the jobs of an edge-cloud."""
        if not self._of_edge:
            raise InputError("these are no jobs of an edge-cloud; choose a format from: "
                             f"{', '.join(EDGE_JOBS.makers)}; netsim list workloads has ready-made "
                             "ones")
        if self._edge_jobs is None or self._edge_jobs[0] is not system:
            self._edge_jobs = system, build(partial(_jobs_on, system), self.given,
                                            ("jobs", "file", "format", "name", "seed"))
        return self._edge_jobs[1]

    def resolved(self) -> dict[str, Any]:
        """Complete the table with the options of a workload file and all defaults."""
        if self._of_edge:
            given = {key: value for key, value in self.given.items() if key != "sha256"}
            full = EDGE_JOBS.full(given, defaults=True)
            return full | (pinned(full["file"]) if "file" in full else {})
        request = self._request
        table = {"name": self._built.name, "format": request.format, "seed": request.seed}
        table |= _defaults(traces.format_of(request.format).defaults) | dict(request.options)
        if request.path is not None:
            table |= pinned(request.path)
        if request.path is not None and self.file is None:
            # The data come with netsim: a name is valid on other machines, too.
            table = table | {"name": self.name}
            del table["file"], table["format"]
        return table


class PartTable(WorkloadTable):
    """An entry of a list ``workload``: a `WorkloadTable` with offsets of arrivals and ids."""

    _JOINED: ClassVar[tuple[str, ...]] = ("arrival", "id_offset")

    arrival: Seconds = 0.0  #: added to the arrival times of its jobs
    #: Added to the ids of its jobs; by default, ids continue after those of the previous entries.
    id_offset: Annotated[int, Field(ge=0)] | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The keys and values of the workload itself."""
        return {key: value for key, value in super().given.items() if key not in self._JOINED}

    def resolved(self) -> dict[str, Any]:
        """See `WorkloadTable.resolved`; the keys `arrival` and `id_offset` are included."""
        own = self.model_dump(include=set(self._JOINED), exclude_none=True)
        return super().resolved() | own


class WorkloadList(RootModel[list[PartTable]]):
    """``workload = [...]``: the jobs of several workloads together."""

    model_config = ConfigDict(strict=True, frozen=True)

    _built: Workload = PrivateAttr()
    _parts: dict[str, Workload] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _build(self) -> WorkloadList:
        if not self.root:
            raise InputError("needs at least one entry")
        made: Workload | None = None
        for place, part in enumerate(self.root):
            follows = 0 if made is None else int(max(column(made.jobs, "id"))) + 1
            offset, key = part.id_offset, f"{place}.id_offset"
            if offset is None:
                offset, key = follows, str(place)
            try:
                own = self._parts[str(place)] = part.built.shift(part.arrival, ids=offset)
                made = own if made is None else made + own
            except InputError as error:
                raise KeyErrors([(key, str(error))]) from error
        assert made is not None
        self._built = made
        return self

    @property
    def built(self) -> Workload:
        """The workload of all jobs."""
        return self._built

    @property
    def parts(self) -> dict[str, Workload]:
        """The workload of each entry, with ids and arrivals shifted, by its index in the list."""
        return self._parts

    def on(self, system: EdgeCloud) -> EdgeWorkload:
        """Raise an error: an edge-cloud has a single workload."""
        raise InputError("must be a table on an edge-cloud, not a list")

    def resolved(self) -> list[dict[str, Any]]:
        """Complete the entries with all defaults."""
        return [part.resolved() for part in self.root]


def _workload(*, name: str | None = None, file: str | None = None, format: str | None = None,
              sha256: str | None = None, seed: int = 0, **options: Any
              ) -> tuple[Request, Workload]:
    source: str | Path | None = None if file is None else Path(file)
    if file is None and format is None:
        source = _ready_made("workload", name, traces.ready_made() | EDGE_JOBS.ready_made())
    try:
        request = resolve(source, format, seed, options)
        check_digest(request.path, sha256)
        workload = request.workload()
    except UnknownTableError as error:
        raise InputError(error.experiment, error.key) from error
    if request.options.get("pattern") is not None:
        make_pattern(request.options["pattern"])  # else it fails only when jobs begin to run
    if file is not None and name in traces.ready_made():
        name = None  # of a ready-made workload that the file has replaced: no label for other data
    return request, workload if name is None else replace(workload, name=name)


def _jobs_on(system: EdgeCloud, /, *, seed: int = 0, sha256: str | None = None, **options: Any
             ) -> EdgeWorkload:
    if sha256 is not None:
        check_digest(EDGE_JOBS.full(options).get("file", options.get("file")), sha256)
    jobs: EdgeWorkload = EDGE_JOBS.make(options, seed=seed, system=system)
    return jobs


def check_on_edge_cloud(table: object) -> None:
    """Check that ``[workload]`` is one table, whose format or name exists for edge-clouds."""
    if isinstance(table, list):
        raise InputError("must be a table on an edge-cloud, not a list")
    if not isinstance(table, Mapping):
        return
    given = {name: table[name] for name in ("format", "file", "name")
             if isinstance(table.get(name), str)}
    try:
        EDGE_JOBS.full(given)
    except UnknownNameError as error:
        if str(error.name) not in {*traces.FORMATS, *traces.ready_made()}:
            raise KeyErrors([(next(iter(given)), str(error))]) from error
    except InputError:
        pass  # the reader reports the error


#: The form of a rate that is kept as it is given.
_OF_RATE = WithJsonSchema(quantity_schema("B/s"))


class ClusterTable(Table):
    """``[cluster]``: servers with GPUs; on the hosts of ``[network]``, if there is one.

    Keys are as for `netsim.Cluster`, and `draw_gpus` is an alternative to `gpus`.
    """

    name: str = "cluster"
    servers: int | None = None
    gpus: int | list[int] | None = None
    nic: Annotated[str | float | int | None, _OF_RATE] = None
    intra: Annotated[str | float | int, _OF_RATE] = "300GB/s"
    draw_gpus: list[int] | None = None  #: numbers from which that of each server is drawn
    #: of the draws of `draw_gpus`; by default, that of the experiment
    seed: Annotated[int, Field(ge=0)] = 0

    @property
    def is_whole(self) -> bool:
        """Whether the table gives the number of servers, so that it needs no network."""
        return self.servers is not None or isinstance(self.gpus, list)

    def on(self, network: networks.Topology | None) -> Cluster:
        """Make the cluster, on a given network or on a big switch; errors name the keys."""
        return build(partial(_cluster, network), self._given(network), ("gpus", "servers"))

    def _given(self, network: networks.Topology | None) -> dict[str, Any]:
        """The options; if the network knows its GPUs, only those that are given."""
        known = network is not None and network.gpu_servers is not None
        return self.model_dump(exclude_none=True, exclude_unset=known)

    def resolved(self, network: networks.Topology | None = None) -> dict[str, Any]:
        """Complete the table with all defaults, on a given network."""
        if network is not None and network.gpu_servers is not None:
            made = self.on(network)
            return {"gpus": made.gpus.tolist(), "nic": made.nic, "intra": made.intra,
                    "name": self.name, **self._given(network)}
        usual = {} if self.draw_gpus is not None or self.gpus is not None else {"gpus": 8}
        return self.model_dump(exclude_none=True) | usual


def _cluster(network: networks.Topology | None, *, servers: int | None = None,
             gpus: int | list[int] | None = None, draw_gpus: list[int] | None = None,
             seed: int = 0, **options: Any) -> Cluster:
    if gpus is not None and draw_gpus is not None:
        raise InputError("give either gpus or draw_gpus, not both", "draw_gpus")
    if draw_gpus is not None:
        count = servers if servers is not None or network is None else network.hosts
        if count is None:
            raise InputError("draw_gpus needs servers, or a network with servers as hosts",
                             "draw_gpus")
        gpus = drawn(count, draw_gpus, seed)
    return Cluster(servers, gpus, topology=network, **options)


def _ready_made(kind: str, name: str | None, known: Collection[str]) -> str:
    if name is None:
        raise InputError(f"give the name of a ready-made {kind}, a file, or a "
                         f"{'kind' if kind == 'network' else 'format'}")
    if name not in known:
        raise UnknownNameError(kind, name, known)
    return name


def _required(kind: str) -> list[str]:
    """List the required options of a kind of network; empty if the kind does not exist."""
    with suppress(InputError):
        return [name for name, default in networks.TOPOLOGIES.options(kind).items()
                if default is inspect.Parameter.empty]
    return []


def _required_options(format: str) -> tuple[str, ...]:
    """List the required options of a format; empty if it does not exist."""
    with suppress(InputError):
        return traces.format_of(format).required
    return ()


def _defaults(options: Mapping[str, Any]) -> dict[str, Any]:
    """Select the options whose default is neither missing nor None."""
    return {name: default for name, default in options.items()
            if default not in (None, inspect.Parameter.empty)}
