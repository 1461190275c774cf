"""The formats by name, and the one door to all of them."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.plain import plain_numbers
from netsim.plugins import Registry
from netsim.traces.cluster.construction import ClusterConstruction, cluster_facts
from netsim.traces.coflow_benchmark import coflow_benchmark_facts
from netsim.traces.library import load_workload_file, locate
from netsim.traces.poisson import poisson_resample
from netsim.traces.problems import Problem, TraceProblemsError, whole_option
from netsim.traces.tiresias import Construction
from netsim.workload import JobSpec, Workload

__all__ = ["FORMATS", "SUFFIXES", "Format", "Request", "as_workload", "format_of",
           "read_workload", "resolve"]

_POISSON = {"poisson_jobs": "jobs", "poisson_mean": "mean_interarrival"}
SUFFIXES = {".json": "json", ".csv": "tiresias", ".txt": "coflow-benchmark"}
_OWN_KEYS = ("name", "description", "format", "file", "seed")


#: Formats of the traces of GPU clusters, whose jobs train models.
_OF_CLUSTERS = {
    "pai": "netsim.traces.cluster.pai:read_pai",
    "pai-100k": "netsim.traces.cluster.pai_sample:read_pai_sample",
    "philly": "netsim.traces.cluster.philly:read_philly",
    "helios": "netsim.traces.cluster.helios:read_helios",
    "gpu-v2023": "netsim.traces.cluster.gpu2023:read_gpu_v2023",
    "tiresias-cluster": "netsim.traces.cluster.tiresias_jobs:read_tiresias_cluster",
    "recurrent": "netsim.traces.cluster.recurrent:recurrent",
}

#: Functions ``read(path, *, seed, **options)``, or without `path` where no file is needed.
FORMATS = Registry(
    "workload format", {
        "json": "netsim.traces.instances:read_instances",
        "coflow-benchmark": "netsim.traces.coflow_benchmark:read_coflow_benchmark",
        "tiresias": "netsim.traces.tiresias:read_tiresias",
        "synthetic": "netsim.traces.synthetic:synthetic",
        "ring-jobs": "netsim.traces.ring_jobs:ring_jobs",
        **_OF_CLUSTERS,
    }, noun="format")

_FACTS = {"coflow-benchmark": coflow_benchmark_facts,
          **dict.fromkeys(_OF_CLUSTERS, cluster_facts)}


@dataclass(frozen=True, slots=True)
class Format:
    """A format that workloads are read from; see `format_of`.

    Attributes
    ----------
    name : str
        As in `FORMATS`, or ``"module:function"``.
    read : callable
        What reads or generates; see `FORMATS`.
    """

    name: str
    read: Callable[..., Workload]

    @property
    def needs_file(self) -> bool:
        """Whether it reads a file; otherwise it generates."""
        return "path" in inspect.signature(self.read).parameters

    @property
    def facts(self) -> Callable[[Workload], list[tuple[str, float]]] | None:
        """What `check_trace` says of such a workload, where it is not what it says of any."""
        return _FACTS.get(self.name)

    @property
    def defaults(self) -> dict[str, Any]:
        """The reader's options with their defaults; ``**construction`` has fields of its own."""
        found: dict[str, Any] = {}
        for name, each in inspect.signature(self.read).parameters.items():
            if each.kind is each.VAR_KEYWORD and self.name in FORMATS:
                kind = ClusterConstruction if self.name in _OF_CLUSTERS else Construction
                found |= {field.name: field.default for field in fields(kind)}
            elif each.kind is not each.VAR_KEYWORD and name not in ("path", "seed"):
                found[name] = each.default
        return found

    @property
    def options(self) -> tuple[str, ...]:
        """The names of all options: those of the reader, and those that every format has."""
        return (*self.defaults, *_POISSON)

    def workload(self, path: Path | None, seed: int, options: Mapping[str, Any]) -> Workload:
        """Read or generate a workload.

        Raises
        ------
        InputError
            If that is none; and as the reader does.
        """
        given = {name: value for name, value in (("path", path), ("seed", seed))
                 if name in inspect.signature(self.read).parameters}
        made = self.read(**given, **options)
        if not isinstance(made, Workload):
            raise InputError(f"{self.name!r} is no format: it must return a netsim.Workload, not "
                             f"{reprlib.repr(made)}")
        return made


def format_of(name: str) -> Format:
    """Look up a format.

    Parameters
    ----------
    name : str
        A name of `FORMATS`, or ``"module:function"`` of one's own: ``read(path, *, seed,
        **options)``, which reads a file and returns a `Workload`, or without `path` one that
        generates. The options that it declares can be given wherever those of any format can.

    Raises
    ------
    UnknownNameError
        If there is no such format.
    InputError
        If it cannot be loaded, or is no function.
    """
    read = FORMATS.resolve(name)
    if not callable(read):
        raise InputError(f"{name!r} is no format: it must be a function that returns a "
                         "netsim.Workload")
    return Format(name, read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be read: the format, its file and options, all names checked."""

    format: str
    path: Path | None
    seed: int
    options: Mapping[str, Any]
    name: str | None = None
    blame: Path | None = None

    def workload(self) -> Workload:
        """Read or generate it."""
        form = format_of(self.format)
        options = {name: value for name, value in self.options.items() if name not in _POISSON}
        poisson = {_POISSON[name]: value for name, value in self.options.items()
                   if name in _POISSON}
        with _blaming(self.blame):
            if len(poisson) == 1:
                raise InputError(f"give both or neither of {' and '.join(_POISSON)}")
            workload = form.workload(self.path, self.seed, options)
            if poisson:
                workload = poisson_resample(workload, seed=self.seed, **poisson)
        return workload if self.name is None else replace(workload, name=self.name)


@contextmanager
def _blaming(path: Path | None) -> Iterator[None]:
    """Name the workload file where it is the file's options that are wrong."""
    try:
        yield
    except TraceError:
        raise
    except InputError as error:
        if path is None:
            raise
        raise TraceProblemsError([Problem(None, str(error))], path) from error


def read_workload(
    source: str | Path | None = None,
    *,
    format: str | None = None,
    seed: int | None = None,
    **options: Any,
) -> Workload:
    """Read a workload from a file, or generate one.

    Parameters
    ----------
    source : path-like, optional
        A file, or the name of a ready-made workload (see `ready_made`). A ``.toml`` file names
        the ``format`` and its options, and its ``file``, relative to itself. Left out for
        formats that generate.
    format : str, optional
        A name of `FORMATS`. By default ``.json`` is read as ``"json"``, ``.csv`` as
        ``"tiresias"`` and ``.txt`` as ``"coflow-benchmark"``.
    seed : int, optional
        Seed of everything random in the workload; by default that of the ``.toml`` file, else 0.
    **options
        Options of the format, over those of a ``.toml`` file; and for every format
        ``poisson_jobs`` and ``poisson_mean``, the arguments `jobs` and `mean_interarrival` of
        `poisson_resample`.

    Raises
    ------
    TraceError
        If the file cannot be read or its contents are wrong, with the line.
    UnknownNameError
        If there is no such workload, format or option.
    InputError
        If an option is out of range.

    Examples
    --------
    >>> len(read_workload(format="synthetic", jobs=5, iterations=10))
    5
    """
    return resolve(source, format, seed, options).workload()


@plain_numbers
def resolve(
    source: str | Path | None, format: str | None, seed: int | None, options: Mapping[str, Any]
) -> Request:
    """Return what `read_workload` is asked to read; raises as it does."""
    if source is None:
        return _request(None, format, seed, options)
    path = locate(source)
    if path.suffix.lower() != ".toml":
        return _request(path, format, seed, options)
    table = load_workload_file(path)
    own = {key: value for key, value in table.items() if key not in _OWN_KEYS}
    blame = None if options or seed is not None else path
    with _blaming(path):
        file = _string(table, "file")
        declared = _string(table, "format")
        name = _string(table, "name") or path.stem
        if file is not None and file.lower().endswith(".toml"):
            raise InputError(f"file must not be another workload file, such as {file!r}")
        if file is None and declared is None:
            raise InputError("a workload file names a 'format', or a 'file' whose suffix tells it")
    if format is not None and format != declared:
        raise InputError(f"{path}: the file names its format, {declared!r}; {format!r} cannot be "
                         "given besides")
    with _blaming(blame):
        data = None if file is None else locate(path.parent / file)
        request = _request(data, declared, table.get("seed") if seed is None else seed,
                           {**own, **options})
        return replace(request, name=name, blame=blame)


def _string(table: Mapping[str, Any], key: str) -> str | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(f"{key} must be a string, not {value!r}")
    return value


def _request(
    path: Path | None, format: str | None, seed: int | None, options: Mapping[str, Any]
) -> Request:
    name = _inferred(path) if format is None else format
    form = format_of(name)
    if form.needs_file and path is None:
        raise InputError(f"the format {name!r} needs a file")
    if path is not None and not form.needs_file:
        raise InputError(f"the format {name!r} generates; it cannot read {path}")
    for option in options:
        if option not in form.options:
            raise UnknownNameError(f"{name} option", option, form.options)
    return Request(format=name, path=path, options=options,
                   seed=whole_option(0 if seed is None else seed, "seed", 0))


def _inferred(path: Path | None) -> str:
    listed = ", ".join(FORMATS)
    if path is None:
        raise InputError(f"give a file, a ready-made workload's name, or a format: {listed}")
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: the suffix {path.suffix!r} tells no format; give one of: "
                         f"{listed}")
    return SUFFIXES[path.suffix.lower()]


def as_workload(given: Workload | Sequence[JobSpec] | str | Path, seed: int) -> Workload:
    """Return a workload that is given as it is, by its jobs, by name or by path.

    Raises
    ------
    InputError
        If it is nothing of the kind, or cannot be read.
    """
    if isinstance(given, Workload):
        return given
    if isinstance(given, str | Path):
        return read_workload(given, seed=seed)
    return Workload(given, seed=seed)
