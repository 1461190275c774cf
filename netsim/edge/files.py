"""Make edge-clouds and their jobs from ready-made names, TOML files, or options."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from netsim.base.files import ready_made_folder, stem_of
from netsim.base.plugins import Registry
from netsim.base.reading import read_description, ready_made_in
from netsim.base.units import Quantity
from netsim.base.values import about, as_list, as_path, check_options, known_names
from netsim.edge.edge_cloud import EdgeCloud, EdgeJob, EdgeWorkload, Kind
from netsim.errors import InputError, TraceError, UnknownNameError

Table = dict[str, Any]


def listed_cloud(workers: Sequence[Sequence[Kind]],
                 ps: int | Sequence[int | Sequence[Kind | None]] = 1, storage: Any = math.inf,
                 cloud: bool = True, edge_links: Any = "10Gbps", wan: Quantity = "10Gbps",
                 name: str = "edge-cloud", seed: int = 0) -> EdgeCloud:
    """Make an edge-cloud from a list of the workers of each server; see `EdgeCloud`."""
    return EdgeCloud(workers, ps=ps, storage=storage, cloud=cloud, edge_links=edge_links, wan=wan,
                     name=name)


def listed_jobs(jobs: Sequence[Mapping[str, Any]], name: str = "edge-jobs",
                seed: int = 0) -> EdgeWorkload:
    """Make jobs of an edge-cloud from a list of tables.

    Parameters
    ----------
    jobs : sequence of mapping
        Tables with the fields of an `EdgeJob`.
    name : str
        The workload's name.
    seed : int
        The workload's seed; nothing is drawn here.
    """
    made = []
    with about("jobs"):
        for place, table in enumerate(as_list(jobs, "jobs", Mapping, "tables")):
            table = {"id": place, **table}
            check_options(EdgeJob, table, f"jobs.{place}")
            made.append(EdgeJob(**table))
    return EdgeWorkload(made, name, seed=seed)


EDGE_KINDS = Registry(
    "kind of an edge-cloud", {
        "edge-servers": "netsim.edge.drawn:draw_edge_cloud",
        "edge-listed": "netsim.edge.files:listed_cloud",
    },
    noun="edge-cloud", accepts=lambda made: isinstance(made, EdgeCloud),
    refusal="is not an edge-cloud: it must make a netsim.EdgeCloud")

EDGE_FORMATS = Registry(
    "format of an edge-cloud's jobs", {
        "edge-jobs": "netsim.edge.drawn:draw_edge_jobs",
        "edge-trace": "netsim.edge.from_trace:trace_edge_jobs",
        "edge-listed": "netsim.edge.files:listed_jobs",
    },
    noun="format", accepts=lambda made: isinstance(made, EdgeWorkload),
    refusal="does not make jobs of an edge-cloud: it must return a netsim.EdgeWorkload")


class Descriptions(NamedTuple):
    """What ready-made names, TOML files and options can describe: edge-clouds, or their jobs."""

    noun: str
    key: str  #: ``"kind"`` or ``"format"``, by which a description names what makes it
    makers: Registry
    folder: str  #: of the ready-made ones
    reader: str  #: the function that reads a description
    table: str  #: of an experiment
    of_system: Sequence[str] = ()  #: options whose defaults are those of the edge-cloud

    def ready_made(self) -> dict[str, str]:
        """List the ready-made ones: names to one-line descriptions."""
        return ready_made_in(self.folder, lambda table: table.get(self.key) in self.makers)

    def includes(self, given: Mapping[str, Any]) -> bool:
        """Whether a table, by its kind or format, its file or its name, describes one of these."""
        if given.get(self.key) is not None:
            return given[self.key] in self.makers
        if given.get("file") is None:
            return given.get("name") in self.ready_made()
        with suppress(InputError):
            return bool(self.full({"file": given["file"]}))
        return False

    def full(self, given: Mapping[str, Any], defaults: bool = False) -> Table:
        """Resolve a table to one with its kind or format and all given options.

        The options of a ready-made description, which ``name`` selects unless there is a ``file``
        or a kind, and those of a file are merged in; ``name`` is a label otherwise. With
        `defaults`, options that are not given get their default values, unless they depend on the
        system.
        """
        table = {name: value for name, value in given.items() if value is not None}
        file = table.pop("file", None)
        if file is not None and self.key in table:
            if "file" not in self.makers.options(table[self.key]):
                raise InputError(f"give either {self.key} or file, not both", self.key)
            table = {"name": stem_of(file)} | table | {"file": file}  # the format reads it
        else:
            if self.key not in table:
                file = Path(self._ready_made_file(table) if file is None else file)
                table = read_description(file) | table
                table.pop("description", None)
            with _naming_file({"file": file}), about(self.key):
                if self.key not in table:
                    raise InputError(f"names no {self.key}; choose from: {', '.join(self.makers)}")
                self.makers.resolve(table[self.key])
        usual = self.makers.options(table[self.key]) if defaults else {}
        return {option: default for option, default in usual.items() if option not in
                self.of_system and default not in (None, inspect.Parameter.empty)} | table

    def _ready_made_file(self, table: Table) -> Path:
        """Find the file of the ready-made description that a table names."""
        if "name" not in table:
            raise InputError(f"give the name of a ready-made {self.noun}, a file, or a "
                             f"{self.key}: {', '.join(self.makers)}")
        if table["name"] not in (names := self.ready_made()):
            raise UnknownNameError(self.noun, table["name"], names, key="name")
        return ready_made_folder(self.folder) / f"{table['name']}.toml"

    def make(self, given: Mapping[str, Any], *, seed: int = 0, system: EdgeCloud | None = None
             ) -> Any:
        """Make what a table describes; see `full`.

        Given the `system` that jobs will run on, random ones have an upload delay for each of its
        servers and need a type that its workers have, unless ``servers`` or ``types`` is given. If
        the table has only a file, the messages of all errors begin with the path of the file.
        """
        with _naming_file(given):
            table = self.full(given)
            maker = table.pop(self.key)
            if "seed" in table:
                raise TraceError(
                    f"seed must not be in a file, but is {table['seed']!r}: give it when the file "
                    f"is read, as seed={table['seed']!r} to {self.reader}, or in {self.table} of "
                    "an experiment", given.get("file"))
            if system is None:
                return self.makers.make(maker, table, seed=seed)
            # Sorted, so that draws do not depend on the order of the servers.
            kinds = sorted(system.types, key=lambda kind: (isinstance(kind, str), kind))
            jobs = self.makers.make(maker, table, seed=seed, servers=system.servers,
                                    types=kinds or [0])
            jobs.check_on(system)
            return jobs

    def read(self, source: str | Path, options: Mapping[str, Any], *, seed: int,
             system: EdgeCloud | None = None) -> Any:
        """Make what a file or a ready-made name describes, with options that override its own."""
        source = as_path(source, "source")
        if isinstance(source, Path) or Path(source).name != source or Path(source).suffix:
            return self.make({**options, "file": os.fspath(source)}, seed=seed, system=system)
        made = self.make({**options, "name": source}, seed=seed, system=system)
        return replace(made, name=options["name"]) if "name" in options else made


EDGE_CLOUDS = Descriptions("edge-cloud", "kind", EDGE_KINDS, "topologies",
                           "netsim.read_edge_cloud", "[edge_cloud]")

EDGE_JOBS = Descriptions("workload", "format", EDGE_FORMATS, "workloads",
                         "netsim.read_edge_jobs", "[workload]", of_system=("servers", "types"))


@known_names
def read_edge_cloud(source: str | Path, *, seed: int = 0, **options: Any) -> EdgeCloud:
    """Read an edge-cloud from a TOML file, or make a ready-made one by name.

    Parameters
    ----------
    source : path-like or str
        A file with a ``kind`` and its options; or the name of a ready-made edge-cloud, as
        ``netsim list topologies`` prints it.
    seed : int
        Seed of the random draws.
    **options
        Options of the kind, which override those of the file.

    Raises
    ------
    InputError
        If the name or the file's kind does not exist, or an option has an invalid value.
    TraceError
        If the file cannot be read.

    Examples
    --------
    >>> read_edge_cloud("edge-servers-100", servers=5, types=2)
    <EdgeCloud 'edge-servers-100': 5 servers, 28 workers of 2 types, with a cloud>
    """
    made: EdgeCloud = EDGE_CLOUDS.read(source, options, seed=seed)
    return made


@known_names
def read_edge_jobs(source: str | Path, system: EdgeCloud | None = None, *, seed: int = 0,
                   **options: Any) -> EdgeWorkload:
    """Read jobs from a TOML file, or make ready-made ones by name.

    Parameters
    ----------
    source : path-like or str
        A file with a ``format`` and its options; or the name of ready-made jobs, as
        ``netsim list workloads`` prints it.
    system : EdgeCloud, optional
        The edge-cloud that the jobs will run on. Random jobs then have an upload delay for each
        of its servers and need a type that its workers have, unless `servers` or `types` is given.
    seed : int
        Seed of the random draws.
    **options
        Options of the format, which override those of the file.

    Raises
    ------
    InputError
        If the name or the file's format does not exist, an option has an invalid value, or the
        system cannot train the jobs.
    TraceError
        If a file cannot be read.

    Examples
    --------
    >>> len(read_edge_jobs("edge-jobs-300", jobs=7))
    7
    """
    made: EdgeWorkload = EDGE_JOBS.read(source, options, seed=seed, system=system)
    return made


@contextmanager
def _naming_file(given: Mapping[str, Any]) -> Iterator[None]:
    """Prefix error messages with the given file, unless the error names an option given here."""
    try:
        yield
    except InputError as error:
        where = f"{given.get('file')}: "
        for each in (error, *error.others) if given.get("file") is not None else ():
            named = each.key != "file" and given.get(each.key) is not None
            if not (named or str(each).startswith(where)):
                each.args = (where + str(each),)
        raise
