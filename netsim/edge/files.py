"""Make edge-clouds and their jobs from ready-made names, TOML files, or options."""

from __future__ import annotations

import inspect
import math
import os
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from netsim.base.files import read_text
from netsim.base.plugins import Registry
from netsim.base.units import Quantity
from netsim.base.values import about, as_list, as_path, check_options, known_names
from netsim.edge.edge_cloud import EdgeCloud, EdgeJob, EdgeWorkload, Kind
from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.text import toml_problem

Table = dict[str, Any]

#: Formats whose servers and types are those of the system, unless given.
_DRAWN = ("edge-jobs", "edge-trace")


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


@known_names
def make_edge_cloud(*, name: str | None = None, file: str | Path | None = None,
                    kind: str | None = None, seed: int = 0, **options: Any) -> EdgeCloud:
    """Make an edge-cloud: a ready-made one, one from a file, or one of a kind with options.

    The `name` is that of a ready-made edge-cloud, unless a `file` (TOML, with a ``kind`` and its
    options) or a `kind` of `EDGE_KINDS` is given: then it is only a label. Options override those
    of the file.
    """
    given = {"name": name, "file": file, "kind": kind, **options}
    with _naming_file(given):
        table = full_edge_cloud(given)
        kind = table.pop("kind")
        _refuse_seed(table, file, "netsim.read_edge_cloud", "[edge_cloud]")
        made: EdgeCloud = EDGE_KINDS.make(kind, table, seed=seed)
        return made


def full_edge_cloud(table: Mapping[str, Any], defaults: bool = False) -> Table:
    """Resolve the arguments of `make_edge_cloud` to a table with its kind and all given options.

    The options of a ready-made edge-cloud or of a file are merged in. With `defaults`, options that
    are not given get their default values.
    """
    full = _resolve_source(table, "kind", "edge-cloud", EDGE_KINDS, "topologies")
    return full if not defaults else _defaults(EDGE_KINDS, full["kind"]) | full


@known_names
def read_edge_cloud(source: str | Path, *, seed: int = 0, **options: Any) -> EdgeCloud:
    """Read an edge-cloud from a TOML file, or make a ready-made one by name.

    Parameters
    ----------
    source : path-like or str
        A name of `ready_made_edge_clouds`, or a file with a ``kind`` and its options.
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
    return make_edge_cloud(**_source_arguments(source), seed=seed, **options)


@known_names
def make_edge_jobs(system: EdgeCloud | None = None, *, name: str | None = None,
                   file: str | Path | None = None, format: str | None = None, seed: int = 0,
                   **options: Any) -> EdgeWorkload:
    """Make jobs of an edge-cloud: ready-made ones, from a file, or of a format with options.

    Arguments are as for `make_edge_cloud`, with a `format` of `EDGE_FORMATS` in place of a kind.
    Given the `system` that they will run on, random jobs have an upload delay for each of its
    servers and need a type that its workers have, unless `servers` or `types` is given.
    """
    return edge_jobs_of({"name": name, "file": file, "format": format, **options}, system,
                        seed=seed)


def edge_jobs_of(given: Mapping[str, Any], system: EdgeCloud | None = None,
                 *, seed: int = 0) -> EdgeWorkload:
    """Make jobs from a mapping of the arguments of `make_edge_jobs`, without the seed.

    If `given` has only a file, the messages of all errors begin with the path of the file.
    """
    with _naming_file(given):
        table = full_edge_jobs(given)
        format = table.pop("format")
        _refuse_seed(table, given.get("file"), "netsim.read_edge_jobs", "[workload]")
        if format in _DRAWN and system is not None:
            table = {"servers": system.servers, "types": _kinds_of(system)} | table
        jobs: EdgeWorkload = EDGE_FORMATS.make(format, table, seed=seed)
        if system is not None:
            jobs.check_on(system)
        return jobs


def full_edge_jobs(table: Mapping[str, Any], defaults: bool = False) -> Table:
    """Resolve the arguments of `make_edge_jobs` to a table with its format and all given options.

    The options of ready-made jobs or of a file are merged in. With `defaults`, options that are not
    given get their default values, except for those that depend on the system.
    """
    full = _resolve_source(table, "format", "workload", EDGE_FORMATS, "workloads")
    return full if not defaults else _defaults(EDGE_FORMATS, full["format"]) | full


@known_names
def read_edge_jobs(source: str | Path, system: EdgeCloud | None = None, *, seed: int = 0,
                   **options: Any) -> EdgeWorkload:
    """Read jobs from a TOML file, or make ready-made ones by name.

    Parameters
    ----------
    source : path-like or str
        A name of `ready_made_edge_jobs`, or a file with a ``format`` and its options.
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
    return make_edge_jobs(system, **_source_arguments(source), seed=seed, **options)


def ready_made_edge_clouds() -> dict[str, str]:
    """List the ready-made edge-clouds: names to one-line descriptions."""
    return _ready_made("topologies", "kind", EDGE_KINDS)


def ready_made_edge_jobs() -> dict[str, str]:
    """List the ready-made jobs of edge-clouds: names to one-line descriptions."""
    return _ready_made("workloads", "format", EDGE_FORMATS)


def _kinds_of(system: EdgeCloud) -> Sequence[Kind]:
    """List the types of workers, sorted, so that the order does not depend on the servers."""
    return sorted(system.types, key=lambda kind: (isinstance(kind, str), kind)) or [0]


# --- tables --------------------------------------------------------------------------------


def _resolve_source(given: Mapping[str, Any], key: str, what: str, known: Registry,
                    folder: str) -> Table:
    """Resolve a name or a file to a table that has its kind or format, which is `key`."""
    table = {name: value for name, value in given.items() if value is not None}
    file = table.pop("file", None)
    if file is not None and key in table:
        if "file" not in known.options(table[key]):
            raise InputError(f"give either {key} or file, not both", key)
        return {"name": Path(file).stem} | table | {"file": file}  # the format reads it
    if file is None and key not in table:
        names = _ready_made(folder, key, known)
        if "name" not in table:
            raise InputError(f"give the name of a ready-made {what}, a file, or a {key}: "
                             + ", ".join(known))
        if table["name"] not in names:
            raise UnknownNameError(what, table["name"], names, key="name")
        file = _folder(folder) / f"{table['name']}.toml"
    if file is not None:
        read = _read(Path(file))
        if isinstance(read.get("file"), str):
            read["file"] = str(Path(file).parent / read["file"])
        table = {"name": Path(file).stem} | read | table
        table.pop("description", None)
    with _naming_file({"file": file}), about(key):
        if key not in table:
            raise InputError(f"names no {key}; choose from: {', '.join(known)}")
        known.resolve(table[key])
    return table


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


def _refuse_seed(table: Mapping[str, Any], file: str | Path | None, reader: str, key: str) -> None:
    if "seed" in table:
        raise TraceError(f"seed must not be in a file, but is {table['seed']!r}: give it when the "
                         f"file is read, as seed={table['seed']!r} to {reader}, or in {key} of an "
                         "experiment", file)


def _source_arguments(source: str | Path) -> Table:
    source = as_path(source, "source")
    named = isinstance(source, str) and Path(source).name == source and not Path(source).suffix
    return {"name": source} if named else {"file": os.fspath(source)}


def _folder(name: str) -> Path:
    """The folder of ready-made files: in the package, or beside it in a checkout."""
    package = Path(__file__).parent.parent
    inside = package / name
    return inside if inside.is_dir() else package.parent / name


def _ready_made(folder: str, key: str, known: Collection[str]) -> dict[str, str]:
    """Map the names of a folder's files to their descriptions, if their kind or format is known."""
    tables = {path.stem: _read(path) for path in sorted(_folder(folder).glob("*.toml"))}
    return {name: str(table.get("description", "")) for name, table in tables.items()
            if str(table.get(key)) in known}


def _read(path: Path) -> Table:
    text = ""
    try:
        text = read_text(path)
        return tomllib.loads(text)
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror}", path) from error
    except (ValueError, RecursionError) as error:
        raise TraceError(toml_problem(error, text), path) from error


def _defaults(known: Registry, name: str) -> Table:
    """The default values of the options, except for those that depend on the system."""
    decided = ("servers", "types") if name in _DRAWN else ()
    return {option: default for option, default in known.options(name).items()
            if default not in (None, inspect.Parameter.empty) and option not in decided}
