"""The registry of workload formats, and what reads any of them: `read_workload`, `check_trace`."""

from __future__ import annotations

import inspect
import reprlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from netsim.base.brief import brief
from netsim.base.files import stem_of, suffix_of
from netsim.base.limits import limited
from netsim.base.plugins import Registry
from netsim.base.reading import Problem, TraceProblemsError
from netsim.base.units import decimal, question_units
from netsim.base.values import about, as_name, as_whole, known_names, optional, plain
from netsim.errors import InputError, NetsimWarning, TraceError, UnknownNameError
from netsim.llm import TrainingSetup
from netsim.traces.cluster.construction import ClusterConstruction, cluster_facts
from netsim.traces.cluster.readers import GPU_TRACES
from netsim.traces.coflow_benchmark import coflow_benchmark_facts
from netsim.traces.files import OF_AICB, UnknownTableError, first_word, header_of, listed_names
from netsim.traces.flows import COLUMN, columns_of_flows, like_flows
from netsim.traces.generators import MOST_JOBS, poisson_resample
from netsim.traces.library import load_workload_file, locate
from netsim.traces.simulators import has_count_of_flows, htsim_facts
from netsim.traces.tiresias import Construction, TiresiasRow
from netsim.workload import JobSpec, Workload
from netsim.workload.operations import Programs

_POISSON = ("poisson_jobs", "poisson_mean")

_EVERY = (*_POISSON, "limits")

_OWN_KEYS = ("name", "description", "format", "file", "seed")

#: Lists facts of a workload for `check_trace`, as (label, value).
Facts = Callable[[Workload], list[tuple[str, float]]]


class OwnFormat(NamedTuple):
    """What netsim knows of a format of its own."""

    #: Reader ``read(path, *, seed, **options)``, or its place; without `path`, it is a generator.
    read: str | Callable[..., Workload]
    suffix: str = ""  #: of files that are in this format, unless their contents say otherwise
    keywords: type[Any] | None = None  #: class whose fields are the ``**options`` of the reader
    facts: Facts | None = None  #: None for the common ones


#: All formats of netsim. Registries and messages are made of this list.
KNOWN: dict[str, OwnFormat] = {
    # Flows, coflows and jobs with their bytes.
    "json": OwnFormat("netsim.traces.instances:read_instances", ".json"),
    "flows": OwnFormat("netsim.traces.flows:read_flows", ".parquet"),
    "coflow-benchmark": OwnFormat("netsim.traces.coflow_benchmark:read_coflow_benchmark", ".txt",
                                  facts=coflow_benchmark_facts),
    "tiresias": OwnFormat("netsim.traces.tiresias:read_tiresias", ".csv", keywords=Construction),
    # Generators.
    "synthetic": OwnFormat("netsim.traces.generators:synthetic", keywords=Construction),
    "ring-jobs": OwnFormat("netsim.traces.generators:ring_jobs"),
    "llm": OwnFormat("netsim.traces.generators:llm", keywords=TrainingSetup),
    "pattern": OwnFormat("netsim.traces.generators:pattern_job"),
    # Flows and jobs of other simulators.
    "htsim": OwnFormat("netsim.traces.simulators:read_htsim", ".cm", facts=htsim_facts),
    "hpcc": OwnFormat("netsim.traces.simulators:read_hpcc_flows"),
    "batsim": OwnFormat("netsim.traces.batsim:read_batsim"),
    # Recorded training, as one job whose ranks compute and communicate.
    "chakra": OwnFormat("netsim.traces.training.chakra:read_chakra", ".et"),
    "kineto": OwnFormat("netsim.traces.training.kineto:read_kineto"),
    "simai": OwnFormat("netsim.traces.training.simai:read_simai"),
    # GPU clusters, whose jobs get models that netsim draws; the last draws the jobs, too.
    **{name: OwnFormat(trace.read, trace.suffix, ClusterConstruction, cluster_facts)
       for name, trace in GPU_TRACES.items()},
    "recurrent": OwnFormat("netsim.traces.cluster.recurrent:recurrent",
                           keywords=ClusterConstruction, facts=cluster_facts),
}

#: Readers of formats; see `OwnFormat`.
FORMATS = Registry("workload format", {name: known.read for name, known in KNOWN.items()},
                   noun="format", group="formats")

#: The formats of files, by suffix.
SUFFIXES = {known.suffix: name for name, known in KNOWN.items() if known.suffix}


@dataclass(frozen=True, slots=True)
class Format:
    """A format that workloads are read from; see `format_of`."""

    name: str  #: as in `FORMATS`, or ``"module:function"``
    read: Callable[..., Workload]  #: the reader or generator; see `OwnFormat`

    @property
    def needs_file(self) -> bool:
        """Whether the format reads a file; otherwise it generates a workload."""
        return "path" in inspect.signature(self.read).parameters

    @property
    def facts(self) -> Facts | None:
        """Function that lists this format's facts for `check_trace`; None for the common facts."""
        return KNOWN[self.name].facts if self.name in KNOWN else None

    @property
    def keywords(self) -> type[Any] | None:
        """Class whose fields are the ``**options`` of the reader."""
        return KNOWN[self.name].keywords if self.name in KNOWN else None

    @property
    def columns(self) -> Callable[..., tuple[dict[str, str], list[str]]] | None:
        """Function that says which columns of a file are read, for `check_trace`; None if fixed."""
        return columns_of_flows if self.name == "flows" else None

    @property
    def defaults(self) -> dict[str, Any]:
        """The reader's options with their defaults, including the fields of ``**construction``."""
        found: dict[str, Any] = {}
        for name, each in inspect.signature(self.read).parameters.items():
            if each.kind is each.VAR_KEYWORD and self.keywords is not None:
                found |= {own.name: own.default for own in fields(self.keywords)
                          if own.name not in found}
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
        A name of `FORMATS`. By default, it is inferred from the suffix, before ``.gz`` if gzip has
        compressed a text: ``"json"`` for ``.json``, ``"kineto"`` for ``.json.gz``, ``"flows"`` for
        ``.parquet``, ``"htsim"`` for ``.cm``, ``"chakra"`` for ``.et``, ``"swf"`` for ``.swf``. For
        ``.csv`` and ``.txt``, it depends on the contents, too. Files that begin like those of SimAI
        and AICB are read as ``"simai"``. Other ``.csv`` files are read as ``"flows"`` if they have
        the columns ``src`` and ``dst``, or if options name such columns, and as ``"tiresias"`` if
        they have columns of that format; an error says what other tables look like, and gives the
        call that reads them. Other ``.txt`` files are read as ``"hpcc"`` if they begin with a
        number alone and then flows, else as ``"coflow-benchmark"``.
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
    if suffix_of(path).lower() != ".toml":
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
        return replace(request, name=name or stem_of(path), workload_file=workload_file)


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


def as_workload(given: Workload | Sequence[JobSpec] | str | Path, seed: int) -> Workload:
    """Convert an argument to a workload: from a workload, a list of jobs, a name or a path."""
    if isinstance(given, Workload):
        return given
    if isinstance(given, str | Path):
        return read_workload(given, seed=seed)
    return Workload(given, seed=seed)


# --- the format of a file ------------------------------------------------------------------

#: Suffixes of texts, whose format depends on what they hold.
_TEXTS = (".csv", ".txt")

#: What only profiles of PyTorch end in; other texts may be compressed by gzip, too.
_OF_KINETO = ".json.gz"

#: What the first word of files of SimAI and AICB begins with.
_OF_SIMAI = ("HYBRID_", "MICRO", *OF_AICB)

#: A table with at least this share of the columns of a format, and this number, looks like it.
_ENOUGH, _FEWEST = 0.5, 2


def _inferred(path: Path | None, options: Mapping[str, Any]) -> str:
    """Infer the format of a file from its suffix, its contents and the given options."""
    listed = ", ".join(FORMATS)
    if path is None:
        raise InputError(f"give a file, a ready-made workload's name, or a format: {listed}")
    if path.name.lower().endswith(_OF_KINETO):
        return "kineto"
    suffix = suffix_of(path).lower()
    if suffix not in SUFFIXES:
        _refuse_unknown(path, header_of(path), table=False)
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
        _refuse_unknown(path, header, table=suffix == ".csv")
    return SUFFIXES[suffix]


def _refuse_unknown(path: Path, header: Sequence[str], *, table: bool) -> None:
    """Refuse a file that only looks like a table of a format, unless that is ``tiresias``.

    The error has the call that reads the file, if there is one. With `table`, the file is certainly
    a table, and is refused even if it looks like no format.
    """
    if flows := like_flows(path, header, {}):
        raise flows
    if "pai_job_table" in path.name:  # whose tables have no header
        raise UnknownTableError("looks like the table of jobs of Alibaba PAI's cluster", path,
                                "pai")
    name, missing = _nearest(header)
    if name is not None and not missing and name != "tiresias":
        raise UnknownTableError(f"looks like a table of the format {name!r}", path, name)
    if not table or name == "tiresias":
        return
    if name is not None:
        columns = "column" if len(missing) == 1 else "columns"
        raise TraceProblemsError([Problem(None, f"looks like a table of the format {name!r}, but "
                                                f"has no {columns} {listed_names(missing)}")], path)
    if any(decimal(cell) == decimal(cell) for cell in header):
        raise TraceProblemsError([Problem(1, "values, where the names of the columns should be; a "
                                             "table of flows begins with a line such as "
                                             "src,dst,bytes,start_s")], path)
    raise UnknownTableError(
        f"has columns of no format that netsim knows: {listed_names(header)}; if each row is a "
        "flow, name its columns",
        path, "flows", dict.fromkeys(("src", "dst", "nbytes"), COLUMN),
        f", where each {COLUMN} is the name of one; if not, the format 'module:function' is a "
        "function of your own that reads the file")


def _nearest(header: Sequence[str]) -> tuple[str | None, list[str]]:
    """Find the format of jobs whose columns a table has most of, and those that it lacks."""
    known = {"tiresias": TiresiasRow._fields,
             **{name: trace.table.columns for name, trace in reversed(GPU_TRACES.items())
                if trace.table is not None}}
    lacks = {name: [each for each in columns if each not in header]
             for name, columns in known.items()}
    share = {name: 1 - len(lacks[name]) / len(columns) for name, columns in known.items()}
    best = max(share, key=share.__getitem__)  # the first of equal ones
    if len(known[best]) - len(lacks[best]) < _FEWEST or (share[best] < _ENOUGH
                                                        and best != "tiresias"):
        return None, []
    return best, lacks[best]


# --- reports -------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class TraceReport:
    """Report of `check_trace` on one file: facts about its workload, or its problems."""

    path: str | Path  #: the file that was read, or the one that has the problems
    format: str  #: ``"toml"`` for an invalid workload file, ``"unknown"`` for an unknown table
    #: Labels, with the unit if there is one, and values; empty if there are problems.
    facts: tuple[tuple[str, float], ...]
    problems: tuple[Problem, ...]
    #: Contents that the reader changed, such as their order, and numbers of a doubtful unit.
    notices: tuple[Problem, ...] = ()
    #: Of a table of flows: the column that is read for each option.
    columns: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()  #: its other columns

    __repr__ = brief


def check_trace(path: str | Path, format: str | None = None, **options: Any) -> TraceReport:
    """Read a trace as `read_workload` does, and report errors in it instead of raising them.

    Parameters
    ----------
    path, format, **options
        As for `read_workload`.

    Raises
    ------
    TraceError
        If the file does not exist, or is a folder.
    InputError
        If an argument is invalid.
    """
    name = format or ("toml" if str(path).endswith((".toml", ".toml.gz")) else "unknown")
    seed = options.pop("seed", None)
    try:
        request = resolve(path, format, seed, options)
        name = request.format
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NetsimWarning)
            with question_units(again=True):
                workload = request.workload()
    except TraceProblemsError as error:
        return TraceReport(error.path or path, name, (), error.problems)
    used, unused = request.columns()
    facts = (format_of(name).facts or _common_facts)(workload)
    return TraceReport(request.path or path, name, tuple(facts), (), _notices(caught), used,
                       tuple(unused))


def _notices(caught: Iterable[warnings.WarningMessage]) -> tuple[Problem, ...]:
    """Select netsim's own warnings among those of a reader, and issue the others again."""
    notices = []
    for warning in caught:
        if isinstance(warning.message, NetsimWarning):
            notices.append(Problem(warning.message.line, warning.message.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename,
                                   warning.lineno)
    return tuple(notices)


def _common_facts(workload: Workload) -> list[tuple[str, float]]:
    """List the facts that are reported for formats without facts of their own."""
    jobs = workload.jobs
    facts: list[tuple[str, float]] = [("jobs", len(jobs))]
    if all(map(_is_known, jobs)):
        total = [sum(column) for column in zip(*map(_sent, jobs), strict=True)]
        facts += zip(("coflows", "flows", "bytes in total"), total, strict=True)
        facts += _spread("workers" if jobs[0].pattern else "hosts", [_width(job) for job in jobs])
    else:
        facts += _spread("ranks", [job.ranks for job in jobs])
    return [
        *facts,
        *_spread("iterations", [job.iterations for job in jobs]),
        ("first arrival (s)", jobs[0].arrival_s),
        ("last arrival (s)", jobs[-1].arrival_s),
    ]


def _spread(label: str, values: Sequence[int]) -> list[tuple[str, float]]:
    """List the minimum, the median and the maximum of `values` as facts."""
    return [
        (f"{label} per job, least", min(values)),
        (f"{label} per job, median", median(values)),
        (f"{label} per job, most", max(values)),
    ]


def _is_known(job: JobSpec) -> bool:
    """Whether a job's flows can be counted before it runs, unlike those of rings and models."""
    return bool(job.stages) or job.operations is not None or (isinstance(job.pattern, Mapping)
                                 and job.pattern.get("name") == "parameter-server"
                                 and "servers" in job.pattern)


def _sent(job: JobSpec) -> tuple[int, int, float]:
    """Count the coflows, flows and bytes of a job over all its iterations."""
    if job.operations is not None:
        made = job.operations.whole if isinstance(job.operations, Programs) else job.operations
        sends = made.sends[made.sends >= 0]
        sent = np.array([(len(each.flows), each.flows.nbytes.sum()) for each in made.sendings])
        flows_made, bytes_made = (sent.reshape(-1, 2)[sends].sum(axis=0) * job.iterations).tolist()
        return len(sends) * job.iterations, int(flows_made), bytes_made
    if job.pattern is None:
        coflows = [stage.flows for stage in job.stages if stage.flows is not None]
        flows = sum(len(coflow) for coflow in coflows)
        nbytes = sum(float(coflow.nbytes.sum()) for coflow in coflows)
        return len(coflows) * job.iterations, flows * job.iterations, nbytes * job.iterations
    # All workers push to all servers, then pull; sizes are uniform in (0, nbytes].
    coflows_sent = 2 * job.iterations
    flows_sent = coflows_sent * _width(job) * _servers(job)
    return coflows_sent, flows_sent, flows_sent * job.nbytes / 2


def _width(job: JobSpec) -> int:
    """Count a job's workers, or the hosts that its flows use."""
    if job.operations is not None:
        return job.ranks
    if job.pattern is not None:
        return job.ranks - _servers(job)
    used = [np.concatenate((stage.flows.src, stage.flows.dst))
            for stage in job.stages if stage.flows is not None]
    return len(np.unique(np.concatenate(used))) if used else 0


def _servers(job: JobSpec) -> int:
    pattern: Any = job.pattern
    return int(pattern["servers"])
