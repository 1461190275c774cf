"""The registry of workload formats, and `read_workload`, which reads any of them."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from netsim.base.limits import limited
from netsim.base.plugins import Registry
from netsim.base.values import about, as_name, as_whole, known_names, optional, plain
from netsim.errors import InputError, TraceError, UnknownNameError
from netsim.llm import TrainingSetup
from netsim.traces.cluster.construction import ClusterConstruction, cluster_facts
from netsim.traces.cluster.readers import GPU_TRACES
from netsim.traces.coflow_benchmark import coflow_benchmark_facts
from netsim.traces.files import OF_AICB, Problem, TraceProblemsError, first_word, header_of
from netsim.traces.flows import columns_of_flows
from netsim.traces.generators import MOST_JOBS, poisson_resample
from netsim.traces.library import load_workload_file, locate
from netsim.traces.simulators import has_count_of_flows, htsim_facts
from netsim.traces.tiresias import Construction
from netsim.traces.unknown import refuse_unknown
from netsim.workload import JobSpec, Workload

_POISSON = ("poisson_jobs", "poisson_mean")

SUFFIXES = {".json": "json", ".csv": "tiresias", ".txt": "coflow-benchmark", ".cm": "htsim",
            ".parquet": "flows", ".et": "chakra"}

_EVERY = (*_POISSON, "limits")

#: Suffixes of texts, whose format depends on what they hold.
_TEXTS = (".csv", ".txt")
_OWN_KEYS = ("name", "description", "format", "file", "seed")

#: The only format whose files are compressed.
_OF_KINETO = ".json.gz"

#: What the first word of files of SimAI and AICB begins with.
_OF_SIMAI = ("HYBRID_", "MICRO", *OF_AICB)

#: Readers ``read(path, *, seed, **options)``; those without `path` are generators.
FORMATS = Registry(
    "workload format", {
        "json": "netsim.traces.instances:read_instances",
        "flows": "netsim.traces.flows:read_flows",
        "coflow-benchmark": "netsim.traces.coflow_benchmark:read_coflow_benchmark",
        "tiresias": "netsim.traces.tiresias:read_tiresias",
        "synthetic": "netsim.traces.generators:synthetic",
        "ring-jobs": "netsim.traces.generators:ring_jobs",
        "llm": "netsim.traces.generators:llm",
        "pattern": "netsim.traces.generators:pattern_job",
        "htsim": "netsim.traces.simulators:read_htsim",
        "hpcc": "netsim.traces.simulators:read_hpcc_flows",
        "chakra": "netsim.traces.training.chakra:read_chakra",
        "kineto": "netsim.traces.training.kineto:read_kineto",
        "simai": "netsim.traces.training.simai:read_simai",
        **{name: trace.read for name, trace in GPU_TRACES.items()},
        "recurrent": "netsim.traces.cluster.recurrent:recurrent",
    }, noun="format", group="formats")

#: Formats whose jobs train models that netsim draws.
_OF_CLUSTERS = (*GPU_TRACES, "recurrent")

#: Classes whose fields are the ``**options`` of readers.
KEYWORDS: dict[str, type[Any]] = {**dict.fromkeys(("synthetic", "tiresias"), Construction),
                                   "llm": TrainingSetup,
                                   **dict.fromkeys(_OF_CLUSTERS, ClusterConstruction)}

_FACTS = {"coflow-benchmark": coflow_benchmark_facts, "htsim": htsim_facts,
          **dict.fromkeys(_OF_CLUSTERS, cluster_facts)}


@dataclass(frozen=True, slots=True)
class Format:
    """A format that workloads are read from; see `format_of`."""

    name: str  #: as in `FORMATS`, or ``"module:function"``
    read: Callable[..., Workload]  #: the reader or generator; see `FORMATS`

    @property
    def needs_file(self) -> bool:
        """Whether the format reads a file; otherwise it generates a workload."""
        return "path" in inspect.signature(self.read).parameters

    @property
    def facts(self) -> Callable[[Workload], list[tuple[str, float]]] | None:
        """Function that lists this format's facts for `check_trace`; None for the common facts."""
        return _FACTS.get(self.name)

    @property
    def columns(self) -> Callable[..., tuple[dict[str, str], list[str]]] | None:
        """Function that says which columns of a file are read, for `check_trace`; None if fixed."""
        return columns_of_flows if self.name == "flows" else None

    @property
    def defaults(self) -> dict[str, Any]:
        """The reader's options with their defaults, including the fields of ``**construction``."""
        found: dict[str, Any] = {}
        for name, each in inspect.signature(self.read).parameters.items():
            if each.kind is each.VAR_KEYWORD and self.name in FORMATS:
                found |= {field.name: field.default for field in fields(KEYWORDS[self.name])
                          if field.name not in found}
            elif each.kind is not each.VAR_KEYWORD and name not in ("path", "seed"):
                found[name] = each.default
        return found

    @property
    def required(self) -> tuple[str, ...]:
        """The options that must be given."""
        return tuple(name for name, default in self.defaults.items()
                     if default is inspect.Parameter.empty)

    @property
    def options(self) -> tuple[str, ...]:
        """The names of all options: the reader's own, and those that every format has."""
        return (*self.defaults, *_EVERY)

    def workload(self, path: Path | None, seed: int, options: Mapping[str, Any]) -> Workload:
        """Read or generate a workload, and check that the reader returned one."""
        given = {name: value for name, value in (("path", path), ("seed", seed))
                 if name in inspect.signature(self.read).parameters}
        made = self.read(**given, **options)
        if not isinstance(made, Workload):
            raise InputError(f"{self.name!r} is not a format: it must return a netsim.Workload, "
                             f"not {reprlib.repr(made)}")
        return made


def format_of(name: str) -> Format:
    """Look up a format: a name of `FORMATS`, or ``"module:function"`` for a user-defined one.

    A user's ``read(path, *, seed, **options)`` reads a file and returns a `Workload`; without the
    parameter `path`, it generates one. The options that it declares are accepted wherever options
    of a format are.
    """
    read = FORMATS.resolve(name)
    if not callable(read):
        raise InputError(f"{name!r} is not a format: it must be a function that returns a "
                         "netsim.Workload")
    return Format(name, read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A checked request to read or generate a workload."""

    format: str
    path: Path | None  #: the data file; None for formats that generate
    seed: int
    options: Mapping[str, Any]
    name: str | None = None  #: given by a workload file
    #: To be named in errors about options; None if some options are the caller's.
    workload_file: Path | None = None

    def workload(self) -> Workload:
        """Read or generate the workload."""
        form = format_of(self.format)
        options = self._own_options()
        given = [name for name in _POISSON if name in self.options]
        with _naming(self.workload_file), limited(self.options.get("limits")):
            if len(given) == 1:
                raise InputError(f"give both or neither of {' and '.join(_POISSON)}", given[0])
            workload = form.workload(self.path, self.seed, options)
            if given:
                jobs = as_whole(self.options["poisson_jobs"], "poisson_jobs", 1, MOST_JOBS)
                with about("poisson_mean"):
                    workload = poisson_resample(workload, jobs, self.options["poisson_mean"],
                                                self.seed)
        return workload if self.name is None else replace(workload, name=self.name)

    def columns(self) -> tuple[dict[str, str], list[str]]:
        """List the columns read, by option, and the others; both are empty if columns are fixed."""
        read = format_of(self.format).columns
        return ({}, []) if read is None or self.path is None else read(
            self.path, **self._own_options())

    def _own_options(self) -> dict[str, Any]:
        """Return the options of the format alone."""
        return {name: value for name, value in self.options.items() if name not in _EVERY}


@contextmanager
def _naming(path: Path | None) -> Iterator[None]:
    """Add the path of the workload file to errors in its options; nothing if `path` is None."""
    try:
        yield
    except TraceError:
        raise
    except InputError as error:
        if path is None:
            raise
        raise TraceProblemsError([Problem(None, str(error))], path, error.key) from error


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
        the ``format``, its options, and the data ``file``, relative to the ``.toml`` file. Not
        given for formats that generate a workload.
    format : str, optional
        A name of `FORMATS`. By default, it is inferred from the suffix: ``"json"`` for ``.json``,
        ``"flows"`` for ``.parquet``, ``"htsim"`` for ``.cm``, ``"chakra"`` for ``.et``. For
        ``.csv`` and ``.txt``, it depends on the contents, too. Files that begin like those of
        SimAI and AICB are read as ``"simai"``. Other ``.csv`` files are read as ``"flows"`` if they
        have the columns ``src`` and ``dst``, or if options name such columns, and as
        ``"tiresias"`` if they have columns of that format; an error says what other tables look
        like, and gives the call that reads them. Other ``.txt`` files are read as ``"hpcc"`` if
        they begin with a number alone and then flows, else as ``"coflow-benchmark"``.
    seed : int, optional
        Seed of all random draws of the workload; by default the seed of the ``.toml`` file, or 0.
    **options
        Options of the format, which override those of a ``.toml`` file. Every format also has
        ``poisson_jobs`` and ``poisson_mean``, which are the arguments `jobs` and
        `mean_interarrival` of `poisson_resample`; and ``limits``, a mapping of names in
        `netsim.base.limits.LIMITS` to numbers that replace these limits.

    Raises
    ------
    TraceError
        If the file cannot be read or its contents are invalid, with the line.
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


@known_names
def resolve(
    source: str | Path | None, format: str | None, seed: int | None, options: Mapping[str, Any]
) -> Request:
    """Check the arguments of `read_workload`, which raises the same errors."""
    if source is None:
        return _request(None, format, seed, options)
    path = locate(source)
    if path.suffix.lower() != ".toml":
        return _request(path, format, seed, options)
    table = load_workload_file(path)
    own = {key: value for key, value in table.items() if key not in _OWN_KEYS}
    workload_file = None if options or seed is not None else path
    with _naming(path):
        file, declared, name = (optional(as_name)(table.get(key), key)
                                for key in ("file", "format", "name"))
        if file is not None and file.lower().endswith(".toml"):
            raise InputError(f"file must not be another workload file, such as {file!r}")
        if file is None and declared is None:
            raise InputError("a workload file must name a 'format', or a 'file' whose suffix is "
                             "that of a format")
    if format is not None and format != declared:
        raise InputError(f"{path}: the file names its format, {declared!r}; {format!r} cannot be "
                         "given as well", "format")
    with _naming(workload_file):
        data = None if file is None else locate(path.parent / file)
        request = _request(data, declared, table.get("seed") if seed is None else seed,
                           {**own, **options})
        return replace(request, name=name or path.stem, workload_file=workload_file)


def _request(
    path: Path | None, format: str | None, seed: int | None, options: Mapping[str, Any]
) -> Request:
    name = _inferred(path, options) if format is None else format
    form = format_of(name)
    if form.needs_file and path is None:
        raise InputError(f"the format {name!r} needs a file", "format")
    if path is not None and not form.needs_file:
        raise InputError(f"the format {name!r} generates a workload; it cannot read {path}",
                         "format")
    for option in options:
        if option not in form.options:
            raise UnknownNameError(f"{name} option", option, form.options, key=option)
    if missing := [option for option in form.required if option not in options]:
        raise InputError(f"the format {name!r} needs: {', '.join(missing)}")
    return Request(format=name, path=path, options=plain(dict(options)),
                   seed=as_whole(0 if seed is None else seed, "seed"))


def _inferred(path: Path | None, options: Mapping[str, Any]) -> str:
    """Infer the format of a file from its suffix, its contents and the given options."""
    listed = ", ".join(FORMATS)
    if path is None:
        raise InputError(f"give a file, a ready-made workload's name, or a format: {listed}")
    if path.name.lower().endswith(_OF_KINETO):
        return "kineto"
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        refuse_unknown(path, header_of(path), table=False)
        raise InputError(f"{path}: no format has the suffix {path.suffix!r}; give one of: "
                         f"{listed}")
    return SUFFIXES[suffix] if suffix not in _TEXTS else _of_text(path, suffix, options)


def _of_text(path: Path, suffix: str, options: Mapping[str, Any]) -> str:
    """Infer the format of a table, or of another text."""
    if first_word(path).startswith(_OF_SIMAI):
        return "simai"
    if suffix == ".txt" and has_count_of_flows(path):
        return "hpcc"
    header = header_of(path)
    if options.keys() & format_of("flows").defaults.keys() or (
            suffix == ".csv" and {"src", "dst"} <= {*header}):
        return "flows"
    if len(header) > 1:
        refuse_unknown(path, header, table=suffix == ".csv")
    return SUFFIXES[suffix]


def as_workload(given: Workload | Sequence[JobSpec] | str | Path, seed: int) -> Workload:
    """Convert an argument to a workload: from a workload, a list of jobs, a name or a path."""
    if isinstance(given, Workload):
        return given
    if isinstance(given, str | Path):
        return read_workload(given, seed=seed)
    return Workload(given, seed=seed)
