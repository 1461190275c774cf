"""The formats by name, and the one door to all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.plain import plain_numbers
from netsim.traces.cluster import (
    ClusterConstruction,
    cluster_facts,
    read_gpu_v2023,
    read_helios,
    read_pai,
    read_pai_sample,
    read_philly,
    read_tiresias_cluster,
    recurrent,
)
from netsim.traces.coflow_benchmark import coflow_benchmark_facts, read_coflow_benchmark
from netsim.traces.instances import read_instances
from netsim.traces.library import load_workload_file, locate
from netsim.traces.poisson import poisson_resample
from netsim.traces.problems import Problem, TraceProblemsError, whole_option
from netsim.traces.ring_jobs import ring_jobs
from netsim.traces.synthetic import synthetic
from netsim.traces.tiresias import Construction, read_tiresias
from netsim.workload import JobSpec, Workload

__all__ = ["FORMATS", "SUFFIXES", "Format", "read_workload", "resolve"]

_POISSON = {"poisson_jobs": "jobs", "poisson_mean": "mean_interarrival"}
SUFFIXES = {".json": "json", ".csv": "tiresias", ".txt": "coflow-benchmark"}
_OWN_KEYS = ("name", "description", "format", "file", "seed")


@dataclass(frozen=True, slots=True)
class Format:
    """A format that workloads are read from.

    Attributes
    ----------
    summary : str
        One line.
    read : callable
        ``read(path, *, seed, **options)``, or without `path` where no file is needed.
    needs_file : bool
        Whether it reads a file; otherwise it generates.
    facts : callable, optional
        What `check_trace` says of a workload of this format, instead of what it says of any.
    construction : type
        A dataclass: its fields are the options that `read` takes as ``**construction``.
    """

    summary: str
    read: Callable[..., Workload]
    needs_file: bool = True
    facts: Callable[[Workload], list[tuple[str, float]]] | None = None
    construction: type = Construction

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the reader's options."""
        names: list[str] = []
        for name, parameter in inspect.signature(self.read).parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                names += [field.name for field in fields(self.construction)]
            elif name not in ("path", "seed"):
                names.append(name)
        return (*names, *_POISSON)


def _of_cluster(summary: str, read: Callable[..., Workload], *, needs_file: bool = True) -> Format:
    return Format(summary, read, needs_file, cluster_facts, ClusterConstruction)


FORMATS: Mapping[str, Format] = {
    "json": Format("explicit jobs or coflows, flow by flow (JSON)", read_instances),
    "coflow-benchmark": Format("the Facebook trace of the coflow papers (a line per coflow)",
                               read_coflow_benchmark, facts=coflow_benchmark_facts),
    "tiresias": Format("the 60-job Tiresias trace of the Parrot paper (CSV)", read_tiresias),
    "synthetic": Format("a random trace like the Tiresias one", synthetic, needs_file=False),
    "ring-jobs": Format("random ring-all-reduce jobs, as in the evaluation of SJF-BCO", ring_jobs,
                        needs_file=False),
    "pai": _of_cluster("Alibaba PAI's GPU cluster of 2020: its tables (CSV)", read_pai),
    "pai-100k": _of_cluster("samples of Alibaba PAI's jobs, as for its simulator (CSV)",
                            read_pai_sample),
    "philly": _of_cluster("Microsoft's Philly clusters: cluster_job_log (JSON)", read_philly),
    "helios": _of_cluster("SenseTime's Helios clusters: cluster_log.csv", read_helios),
    "gpu-v2023": _of_cluster("Alibaba's GPU cluster of 2023: openb_pod_list_*.csv",
                             read_gpu_v2023),
    "tiresias-cluster": _of_cluster("the Tiresias trace as jobs that train models (CSV)",
                                    read_tiresias_cluster),
    "recurrent": _of_cluster("random jobs that recur, as those of Alibaba PAI do", recurrent,
                             needs_file=False),
}


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
        form = FORMATS[self.format]
        options = {name: value for name, value in self.options.items() if name not in _POISSON}
        poisson = {_POISSON[name]: value for name, value in self.options.items()
                   if name in _POISSON}
        with _blaming(self.blame):
            if len(poisson) == 1:
                raise InputError(f"give both or neither of {' and '.join(_POISSON)}")
            arguments = (self.path,) if form.needs_file else ()
            workload = form.read(*arguments, seed=self.seed, **options)
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
    if not isinstance(name, str) or name not in FORMATS:
        raise UnknownNameError("workload format", name, FORMATS)
    form = FORMATS[name]
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
