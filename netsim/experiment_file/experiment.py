"""The experiment: workload, target, policies and settings in one checked and frozen object."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from netsim._version import __version__
from netsim.base.streams import seed_of
from netsim.base.units import LONG_INTERVAL
from netsim.base.values import as_choice, plain
from netsim.cluster import Cluster
from netsim.edge import EdgeCloud, EdgeWorkload
from netsim.engine.preemption import on_edge
from netsim.errors import InputError, SpecError
from netsim.experiment_file.sources import (
    ClusterTable,
    EdgeCloudTable,
    NetworkTable,
    WorkloadList,
    WorkloadTable,
    check_on_edge_cloud,
)
from netsim.experiment_file.tables import (
    AllocatorTable,
    CompareTable,
    EventTable,
    ExecutionTable,
    PlacementTable,
    PolicyTable,
    PreemptionTable,
    SchedulerTable,
    SweepTable,
    Table,
    TransportTable,
)
from netsim.experiment_file.values import (
    KINDS,
    Interval,
    KeyErrors,
    PositiveSeconds,
    Stragglers,
    described,
)
from netsim.network import Topology
from netsim.results.result import EDGE_TABLES
from netsim.results.tables import RECORDS
from netsim.simulation.compatibility import (
    check_jobs,
    problems_of,
    usual_execution,
    without_preemption,
)
from netsim.simulation.run_spec import NOT_FOR, RunSpec
from netsim.workload import Workload

#: Policies of a cluster besides the allocator, each chosen by a name or a table with a name.
POLICIES = ("scheduler", "placement", "execution")

#: All policies that are chosen so, and transports.
NAMED = ("allocator", "transport", *POLICIES)

#: The name of an experiment, which is also that of a folder.
_NAME = r"\w[\w.+-]{0,99}"

#: The tables that are kept by default.
_RECORD = ["jobs", "coflows"]

_RESOLVED = ("network", "cluster", "edge_cloud", "workload", *POLICIES, "transport", "allocator")

_Workloads = Annotated[
    Annotated[WorkloadTable, Tag(KINDS[0])] | Annotated[WorkloadList, Tag(KINDS[1])],
    Discriminator(lambda value: KINDS[isinstance(value, list | WorkloadList)])]


#: The allocator of an experiment that names none.
_USUAL = AllocatorTable(name="maxmin")


class Experiment(Table):
    """One simulation, or several policies to compare, with the keys of the experiment file.

    Tables may be given as dictionaries, quantities as ``"10ms"`` or as numbers in base units.

    Attributes
    ----------
    name : str
        Name of the results: letters, digits, and ``_ . + -``.
    description : str
        One line of text.
    seed : int
        Seed of the placement of jobs, and of the workload unless it has its own.
    observe_interval, until, record, check, events, epsilon
        As for `netsim.simulate`.
    network : NetworkTable, optional
    cluster : ClusterTable, optional
        Servers with GPUs, on the hosts of the network if there is one. A network, a cluster or an
        edge-cloud is required.
    edge_cloud : EdgeCloudTable, optional
        Edge servers and a cloud. Excludes a cluster.
    workload : WorkloadTable or WorkloadList
        A workload, or on a network or a cluster a list of several.
    scheduler : SchedulerTable or str, optional
        The scheduler, on a cluster or an edge-cloud.
    placement, execution : PlacementTable, ExecutionTable or str, optional
    preemption : PreemptionTable, optional
        On a cluster.
    transport : TransportTable, optional
        On an edge-cloud.
    lp_bound : float, optional
        On an edge-cloud: compute the LP bound, with slots of this length in seconds; see
        `netsim.lp_bound`. Not computed by default.
    allocator : AllocatorTable or str
    stragglers : dict of str to float, optional
        Factors by which computation is slower, by host or server.
    compare : CompareTable
    sweep : SweepTable

    Raises
    ------
    SpecError
        If anything is wrong; lists all problems, each beginning with its key path.

    Examples
    --------
    >>> experiment = Experiment(network={"kind": "big-switch", "hosts": 128},
    ...                         workload={"name": "parrot-60"}, allocator="parrot")
    >>> experiment.network.built
    <BigSwitch 'big-switch': 128 hosts, 256 links>
    """

    name: Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^{_NAME}$"})] = "experiment"
    description: str = ""
    seed: Annotated[int, Field(ge=0)] = 0
    observe_interval: Interval = 0.0
    until: PositiveSeconds = None
    record: Annotated[list[str], WithJsonSchema({
        "type": "array", "items": {"enum": [*RECORDS, *EDGE_TABLES]}, "default": _RECORD})] = Field(
            default_factory=lambda: [*_RECORD])
    check: bool = True
    cluster: ClusterTable | None = None
    edge_cloud: EdgeCloudTable | None = None
    network: Annotated[NetworkTable | None, Field(validate_default=True)] = None
    scheduler: SchedulerTable | None = None
    placement: PlacementTable | None = None
    execution: ExecutionTable | None = None
    preemption: PreemptionTable | None = None
    transport: TransportTable | None = None
    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    lp_bound: PositiveSeconds = None
    workload: _Workloads
    allocator: AllocatorTable = _USUAL
    events: list[EventTable] = Field(default_factory=list)
    stragglers: Stragglers | None = None
    compare: CompareTable = CompareTable()
    sweep: SweepTable = SweepTable()
    _seeded: tuple[tuple[str | int, ...], ...] = PrivateAttr(default=())

    def __init__(self, /, **keys: Any) -> None:
        keys = plain(keys)
        try:
            super().__init__(**keys)
        except ValidationError as error:
            raise SpecError(described(error, type(self))) from None
        self._seeded = tuple(_without_seed(keys))

    @model_validator(mode="before")
    @classmethod
    def _share_seed(cls, keys: dict[str, Any]) -> dict[str, Any]:
        seed = keys.get("seed", 0)
        if type(seed) is not int or seed < 0:
            return keys
        found = keys | {"workload": [*keys["workload"]]} if isinstance(
            keys.get("workload"), list) else {**keys}
        for *above, last in _without_seed(keys):
            # Entries of a list with equal distributions must not draw equal numbers.
            own = seed_of(seed, "workload entry", int(last)) if above and last else seed
            table_at(found, above)[last] = {"seed": own, **table_at(keys, [*above, last])}
        return found

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if not re.fullmatch(_NAME, name):
            raise InputError("must have at most 100 letters, digits and _ . + -, because it "
                             f"names a folder, not {name!r}")
        return name

    @field_validator("record")
    @classmethod
    def _check_record(cls, record: list[str]) -> list[str]:
        for name in record:
            as_choice(name, "record", (*RECORDS, *EDGE_TABLES))
        return record

    @field_validator("cluster")
    @classmethod
    def _check_cluster(cls, cluster: ClusterTable | None) -> ClusterTable | None:
        if cluster is not None and cluster.is_whole:
            cluster.on(None)
        return cluster

    @field_validator("network")
    @classmethod
    def _check_network(cls, network: NetworkTable | None, info: ValidationInfo
                       ) -> NetworkTable | None:
        if not info.data.keys() >= {"cluster", "edge_cloud"}:
            return network
        try:
            target = _target({**info.data, "network": network})
        except KeyErrors as error:
            raise InputError(str(error)) from error
        if target is None:
            raise InputError("is required, unless there is a [cluster] or an [edge_cloud]")
        return network

    @field_validator("workload", mode="before")
    @classmethod
    def _check_known(cls, table: Any, info: ValidationInfo) -> Any:
        if info.data.get("edge_cloud", ...) is not None:  # also if it is invalid
            check_on_edge_cloud(table)
        return table

    @field_validator("workload")
    @classmethod
    def _check_fits(cls, workload: WorkloadTable | WorkloadList, info: ValidationInfo
                    ) -> WorkloadTable | WorkloadList:
        if info.data.get("edge_cloud") is not None:
            workload.on(info.data["edge_cloud"].on(None))
        elif info.data.keys() >= {"network", "cluster", "edge_cloud"}:
            target = _target(info.data)
            for key, jobs in workload.parts.items():
                try:
                    if isinstance(target, Cluster):
                        check_jobs(jobs, target)
                    elif isinstance(target, Topology):
                        from netsim.jobs.fitting import all_fitted

                        all_fitted(jobs, target)
                except InputError as error:
                    raise KeyErrors([(key, str(error))]) from error
        return workload

    @field_validator("scheduler", "placement", "execution", "preemption")
    @classmethod
    def _check_on_cluster(cls, table: Any, info: ValidationInfo) -> Any:
        known = [info.data.get(name, table) for name in ("cluster", "edge_cloud")]
        if table is not None and known == [None, None]:
            raise InputError(NOT_FOR["network"][str(info.field_name)])
        return table

    @field_validator("events", "stragglers")
    @classmethod
    def _check_hosts(cls, given: Any, info: ValidationInfo) -> Any:
        if not given:
            return given
        from netsim.simulation.faults import problems_on

        target = _target(info.data)
        network = target.network if isinstance(target, Cluster | EdgeCloud) else target
        cluster = target if isinstance(target, Cluster) else None
        if network is not None and (problems := problems_on(network, given, cluster)):
            raise KeyErrors(problems)
        return given

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        if self.compare.allocators and self.compare.schedulers:
            raise KeyErrors([("compare", "has allocators and schedulers; a sweep varies both")])
        if problems := self._problems():
            raise KeyErrors(problems)
        return self

    def _problems(self) -> list[tuple[str, str]]:
        """List why the run is refused; compared allocators are checked when they run."""
        spec = self.run_spec()
        keys = [name for name in ("network", "cluster", "lp_bound") if getattr(self, name)]
        keys += [f"compare.{name}" for name in ("allocators", "schedulers")
                 if getattr(self.compare, name)]
        compared = {f"compare.schedulers.{place}": table.given
                    for place, table in enumerate(self.compare.schedulers)}
        found = problems_of(spec, keys, compared)
        if len(self.workload.parts if self.edge_cloud is None else ()) < 2:
            return found
        of_parts = {part: problems_of(replace(spec, workload=jobs), keys)
                    for part, jobs in self.workload.parts.items()}
        return [(_of_one(each, of_parts), each[1]) if each[0] == "workload" else each
                for each in found]

    @property
    def _policies(self) -> dict[str, PolicyTable]:
        return {name: table for name in POLICIES if (table := getattr(self, name)) is not None}

    @property
    def allocates(self) -> bool:
        """Whether jobs use the network, and so the allocator."""
        if self.cluster is not None and self.execution is None:
            return usual_execution(self.workload.built) == "fabric"
        return self.execution is None or self.execution.uses_links

    @property
    def seeded(self) -> tuple[tuple[str | int, ...], ...]:
        """Paths of the tables that use the experiment's seed, because they have none of their own.

        See `table_at`.
        """
        return self._seeded

    @property
    def target(self) -> Topology | Cluster | EdgeCloud:
        """The target on which jobs run: the network, the cluster or the edge-cloud."""
        target = _target(vars(self))
        assert target is not None
        return target

    @property
    def jobs(self) -> Workload | EdgeWorkload:
        """The workload."""
        if self.edge_cloud is not None:
            return self.workload.on(self.edge_cloud.on(None))
        return self.workload.built

    @property
    def shares_links(self) -> bool:
        """Whether jobs move data over links, whose bandwidth an allocator shares."""
        if self.edge_cloud is None:
            return self.allocates
        return self.transport is not None and self.transport.shares_links

    def run_spec(self, **more: Any) -> RunSpec:
        """Describe the run of the experiment's own policies, with `more` arguments."""
        return RunSpec(network=self.target, workload=self.jobs, **self.arguments, **more)

    @property
    def arguments(self) -> dict[str, Any]:
        """The given keyword arguments of `netsim.simulate`, and the defaults of some."""
        given: dict[str, Any] = {name: table.given for name in NAMED
                                 if (table := getattr(self, name)) not in (None, _USUAL)}
        if self.preemption is not None:
            # Defaults depend on where jobs run.
            given["preemption"] = self.preemption.model_dump(
                exclude_unset=self.edge_cloud is not None)
        if self.stragglers:
            from netsim.simulation.faults import hosts_of

            given["stragglers"] = hosts_of(self.stragglers)
        return given | {
            "observe_interval": self.observe_interval, "seed": self.seed, "check": self.check,
            "until": self.until, "epsilon": self.epsilon, "record": tuple(self.record),
            "events": [event.model_dump() for event in self.events]}

    def __repr__(self) -> str:
        tables = [*self._policies.values(), *([self.allocator] if self.allocates else [])]
        policies = ", ".join(str(table.name) for table in tables)
        where = ("an edge-cloud" if self.edge_cloud is not None else
                 "a cluster" if self.cluster is not None else repr(_source(self.network)))
        return (f"<Experiment {self.name!r}: {policies} on {where}, "
                f"workload {_source(self.workload)!r}>")

    __str__ = __repr__

    def single(self, **policies: PolicyTable) -> Experiment:
        """Return the same experiment without its tables ``compare`` and ``sweep``.

        Parameters
        ----------
        **policies
            An allocator or a scheduler that replaces that of the experiment.
        """
        update: dict[str, Any] = {"compare": CompareTable(), "sweep": SweepTable(), **policies}
        compared = [table.given for table in self.compare.schedulers]
        if self.edge_cloud is not None and "scheduler" in policies and without_preemption(
                [policies["scheduler"].given, *compared])[0]:
            update["preemption"] = None
        return self.model_copy(update=update)

    def resolved(self) -> dict[str, Any]:
        """Return the experiment as plain tables and values, with everything explicit.

        Ready-made descriptions and defaults are filled in; input files are given by path and
        digest. If the returned value is called ``resolved``, ``Experiment(**resolved)`` gives the
        same results.
        """
        # Without keys of edge-clouds, hashes of other experiments are those of earlier versions.
        only = () if self.edge_cloud is not None else ("epsilon",)
        plain = self.model_dump(exclude={*_RESOLVED, "compare", "sweep", *only},
                                exclude_none=True)
        if self.observe_interval >= LONG_INTERVAL:
            plain["observe_interval"] = f"{self.observe_interval:.17g}s"  # it is not questioned
        tables = {name: getattr(self, name).resolved() for name in _RESOLVED
                  if getattr(self, name) is not None
                  and not (name == "allocator" and not self.shares_links)}
        if self.preemption is not None and self.edge_cloud is not None:
            given = self.preemption.model_dump(exclude_unset=True)
            tables["preemption"] = asdict(on_edge(given))  # with the defaults of an edge-cloud
        if self.cluster is not None:
            tables["cluster"] = self.cluster.resolved(_built(self.network))
        if compared := {name: [table.resolved() for table in getattr(self.compare, name)]
                        for name in ("allocators", "schedulers") if getattr(self.compare, name)}:
            tables["compare"] = compared
            if self.compare.baseline is not None:
                tables["compare"]["baseline"] = self.compare.baseline
        if self.sweep != SweepTable():
            tables["sweep"] = self.sweep.model_dump(exclude_none=True)
        return plain | tables


def _source(table: Any) -> str:
    """The key by which a network or a workload is given: a name, a file, or a kind."""
    if isinstance(table, WorkloadList):
        return " + ".join(map(_source, table.root))
    given = (getattr(table, key, None) for key in ("name", "file", "kind", "format"))
    return next(str(value) for value in given if value is not None)


def _built(network: NetworkTable | None) -> Topology | None:
    return None if network is None else network.built


def _target(tables: Mapping[str, Any]) -> Topology | Cluster | EdgeCloud | None:
    """What jobs run on, made of the tables that there are; None if there are none."""
    network = _built(tables.get("network"))
    for name in ("edge_cloud", "cluster"):
        if (table := tables.get(name)) is not None:
            made: Cluster | EdgeCloud = table.on(network)
            return made
    return network


def table_at(keys: Any, path: Iterable[str | int]) -> Any:
    """Look up the table at a path, which consists of keys, and indices in lists."""
    for part in path:
        keys = keys[part]
    return keys


def _of_one(problem: tuple[str, str], of_parts: Mapping[str, list[tuple[str, str]]]) -> str:
    """The key of a problem, or that of the only part that has the problem."""
    having = [part for part, problems in of_parts.items() if problem in problems]
    return f"{problem[0]}.{having[0]}" if len(having) == 1 else problem[0]


def _without_seed(keys: Mapping[str, Any]) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of the tables that take the experiment's seed."""
    paths: list[tuple[str | int, ...]] = [("cluster",), ("edge_cloud",), ("workload",)]
    if isinstance(keys.get("workload"), list):
        paths[2:] = [("workload", place) for place in range(len(keys["workload"]))]
    for path in paths:
        if path[0] in keys and isinstance(table := table_at(keys, path), Mapping) and (
                "seed" not in table):
            yield path


# --- identity ------------------------------------------------------------------------------
def spec_hash(resolved: Mapping[str, Any], digits: int = 8) -> str:
    """Hash a resolved experiment and netsim's version to hexadecimal digits.

    The hash depends on the contents of files, but not on their paths, the description of the
    experiment, or what a sweep varies.
    """
    spec = {key: value for key, value in resolved.items() if key not in ("description", "sweep")}
    for name in ("network", "workload"):
        spec[name] = _without_file(spec.get(name, {}))
    text = json.dumps({"netsim": __version__, "spec": spec}, sort_keys=True,
                      separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def _without_file(tables: Any) -> Any:
    """Copy a table, or a list of tables, without the key of its file."""
    if isinstance(tables, list):
        return list(map(_without_file, tables))
    return {key: value for key, value in tables.items() if key != "file"}


def default_folder(experiment: Experiment) -> Path:
    """The default folder of an experiment's results: ``runs/<name>-<hash8>``."""
    return Path("runs") / f"{experiment.name}-{spec_hash(experiment.resolved())}"
