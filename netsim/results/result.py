"""The result of a run: data frames, a summary, and a folder on disk, to save to and load from."""

from __future__ import annotations

import json
import reprlib
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.base.brief import MOST_ROWS, shown
from netsim.base.display import draw
from netsim.base.files import read_text
from netsim.base.lazy import pd
from netsim.base.tables import arrow_table, read_csv, read_parquet
from netsim.base.units import Quantity, format_count, format_seconds
from netsim.base.values import known_names
from netsim.errors import InputError, NotRecordedError
from netsim.results.lazy_table import FrameColumns, LazyTable
from netsim.results.store import LARGE, TABLES, Records, save_records
from netsim.results.summary import OF_RUN, summarise
from netsim.text import bare_names, visible

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.axes import Axes


# --- tables that a result lacks ------------------------------------------------------------

_SINGULAR = ("training", "held")

#: Tables that only runs on an edge-cloud have.
EDGE_TABLES = ("chunks", "training", "held", "workers", "servers", "ps")


def on_edge(run: Mapping[str, Any]) -> bool:
    """Whether a run, given by its identity, was on an edge-cloud."""
    execution = run.get("execution")
    return isinstance(execution, Mapping) and execution.get("name") == "edge"


def shares_links(run: Mapping[str, Any]) -> bool:
    """Whether the jobs of a run shared links, so that an allocator had something to do."""
    execution = run.get("execution") or {}
    # Where nothing is allocated, the allocator has the name of what takes its place.
    instead = (execution.get("name"), execution.get("transport"))
    return (run.get("allocator") or {}).get("name") not in instead


def not_recorded(run: Mapping[str, Any], name: str) -> NotRecordedError:
    """Make the error for a table that a result lacks, given the identity of the run."""
    execution = run.get("execution") or {}
    model = execution.get("name", "fabric")
    if name == "gpus":
        return _of_others(name, "netsim.Cluster")
    if on_edge(run):
        return _on_edge(run, name)
    if name in EDGE_TABLES:
        return _of_others(name, "netsim.EdgeCloud")
    record = list(dict.fromkeys(("jobs", "coflows", name)))
    if not shares_links(run):
        given: dict[str, Any] = {"execution": "fabric"}
        return _error(f"there are no {name}: jobs ran by the model {model!r}, and sent nothing "
                      "over a network; `gpus` says which job had which GPU",
                      given if name == "coflows" else given | {"record": record})
    return _unrecorded(name, record)


def _unrecorded(name: str, record: list[str]) -> NotRecordedError:
    """Make the error for a table that can be recorded."""
    return _error(f"{name} {'was' if name in _SINGULAR else 'were'} not recorded",
                  {"record": record})


def _of_others(name: str, target: str) -> NotRecordedError:
    """Make the error for a table of another kind of run."""
    return NotRecordedError(f"there {'is' if name in _SINGULAR else 'are'} no {name}",
                            *[f"only runs on a {target} have them"] * 2)


def _on_edge(run: Mapping[str, Any], name: str) -> NotRecordedError:
    """Make the error for a table of a run on an edge-cloud."""
    if name in ("coflows", "flows"):
        return NotRecordedError(f"there are no {name} of a run on an edge-cloud",
                                *["`training` says what trained where, from when to when"] * 2)
    record: dict[str, Any] = {"record": ["jobs", name]}
    if name == "chunks":
        return _error("chunks were not recorded, or the scheduler is one for whole jobs", record)
    if name == "held":
        return _error("held was not recorded, or the scheduler is one for chunks", record)
    if name in EDGE_TABLES or shares_links(run):
        return _unrecorded(name, record["record"])
    return _error(f"there are no {name}: with transport {run['execution']['transport']!r} no links "
                  "are shared", {"transport": "fabric"} | record)


def _error(problem: str, settings: Mapping[str, Any]) -> NotRecordedError:
    """Make the error with the settings to simulate with, in Python and on the command line."""
    keywords = ", ".join(f"{key}={value!r}" for key, value in settings.items())
    options = " ".join(f"--set {key}={value}" if isinstance(value, str)
                       else f"--set '{key}={json.dumps(value)}'" for key, value in settings.items())
    return NotRecordedError(problem, f"simulate with {keywords}", f"run it again with {options}")


# --- the result ----------------------------------------------------------------------------

#: Default of a table that is not recorded, typed so that fields can be annotated as data frames.
_NONE: Any = None


@dataclass(frozen=True)
class Result:
    """The result of a run.

    Tables may be given as `LazyTable`; they become data frames on first access. Access to a table
    that was not recorded, that runs of this kind do not have, or that was not read back from disk
    raises a `NotRecordedError`, which says how to record it. `recorded` names the tables that are
    present.

    Attributes
    ----------
    jobs : DataFrame
        One row per job. Times of a job that had not finished when the run was stopped are NaN.
        Columns of all runs:

        - job, name
        - arrival_s, start_s, finish_s, jct_s: start_s is when its first byte was sent, on a
          `netsim.Cluster` when it got its GPUs, and on a `netsim.EdgeCloud` when it first trained
        - iterations, ranks, coflows, bytes
        - lower_bound_s: the least time that the job can take, even without other jobs

        On a cluster, also:

        - queue_s: start_s minus arrival_s
        - gpus, servers: numbers of GPUs and servers that it had
        - placement: ``"0:2 3:1"`` is two GPUs of server 0, one of server 3
        - preemptions, restarts (on the loss of a server), promotions (in queues of the scheduler)
        - waited_s: all time without GPUs
        - held_gpu_s: the GPU-seconds for which it held GPUs; the sum of the next three columns
        - useful_gpu_s, lost_gpu_s: GPU-seconds of progress that was kept, and that was lost
        - overhead_gpu_s: GPU-seconds of saving, moving and restoring its state

        On an edge-cloud, also:

        - queue_s: start_s minus arrival_s
        - type: the type of its workers
        - chunks, cloud_chunks: number of all chunks, and of chunks that trained in the cloud
        - zeta: 1 if all chunks are in the cloud, else 0
        - uploaded_s: from its arrival until the data of all its chunks had arrived; NaN under a
          scheduler of whole jobs
        - preemptions
        - communication_s
        - under a scheduler of whole jobs, promotions, waited_s, and held_gpu_s with its parts, in
          seconds of workers

        If a run on an edge-cloud was stopped, bytes and communication_s count only uploads that had
        arrived, and exchanges of chunks, or whole jobs, that had ended.

        Where they apply:

        - wire_bytes, if links add headers
        - restarts, lost_s (time spent in iterations that had to be repeated), if jobs restart on
          the loss of a host or server
        - lost_bytes, if jobs that use links restart or are preempted: the bytes of iterations that
          were repeated, which the column bytes does not count
        - algorithm, why, if a rule or the network chose the algorithm of a job's collective: the
          name of the algorithm, and the reason for the choice
    recorded : tuple of str
        Names of the tables that are present.
    coflows : DataFrame
        One row per completed coflow: coflow, job, iteration, stage, valid_s, start_s,
        finish_s, cct_s, bytes, longest_bytes (of its longest flow), width (flows with bytes),
        gamma_s (effective bottleneck), deadline_s (the instant by which it should have finished;
        NaN without a deadline). If the network has latency, overhead or packets, this table and
        `flows` also have begin_s, sent_s and wire_bytes.
    flows : DataFrame
        If recorded, one row per flow: coflow, job, flow (numbered within the coflow), src and dst
        (numbers of hosts), bytes, valid_s, finish_s; and src_name and dst_name, if the network
        gives hosts names.
    links : DataFrame
        If recorded, one row per link and interval of constant rate in which the link carried
        bytes, or had failed while others carried some: start_s, end_s, link, bytes, and capacity
        (in bytes per second, during the interval; 0 of a link that has failed); and line_rate, the
        capacity before efficiency, if some link has an efficiency below 1. If only a timeline was
        asked for, intervals are longer: see `timeline` of `netsim.simulate`.
    decisions : DataFrame
        If recorded, one row per decision: time_s, the numbers of active jobs, coflows and flows,
        and values that the policy inferred. If only a timeline was asked for, some decisions are
        left out: see `timeline` of `netsim.simulate`.
    computations : DataFrame
        If recorded, one row per computation of jobs whose ranks compute: job, iteration, rank,
        stage, stream, start_s and finish_s.
    run : mapping
        Identity of the run: allocator, network, workload, seed, version, platform, and on a cluster
        also cluster, scheduler, placement, execution, gpus and gpus_per_server; on an edge-cloud
        scheduler, execution and workers (their number at the edge). Further keys are ``sharing``,
        which says how the bandwidth left over by the allocator's order was allocated and when rates
        were decided (empty if no links were shared); ``stopped_at_s``, the instant at which `until`
        stopped the run (None if all jobs finished); ``decisions``, ``simpy_events`` and
        ``wall_s``, the cost of the run; ``counts`` of the allocator; and ``overdue``, the number
        of coflows past their deadline when the run was stopped.
    spec : mapping or None
        The resolved experiment of the run, if any.
    gpus : DataFrame
        On a `netsim.Cluster`, one row per GPU and interval for which a job held it: job, server,
        gpu (numbered within the server), start_s, run_s and stop_s (between which the job made
        progress), end_s, and reason (``"finish"``, ``"preempt"`` or ``"fault"``).
    other_coflows : DataFrame
        On a cluster on the fabric, and on a network where jobs restart, if coflows are recorded:
        one row per coflow that is not in `coflows` because its job was preempted or lost a host:
        job, iteration, stage, valid_s, start_s, end_s, bytes (sent until end_s) and why. The value
        of why is ``"withdrawn"`` if the coflow was not sent completely, ``"repeated"`` if its
        iteration was repeated, and ``"state"`` if the coflow moved the state of its job. Of a
        `netsim.Fabric`, one row per cancelled coflow, with its number in `coflows`.
    chunks : DataFrame
        On a `netsim.EdgeCloud` with a scheduler of chunks, one row per chunk: job, chunk (numbered
        within the job), server and worker (-1 in the cloud; workers are numbered within the
        server), dispatch_s, ready_s (arrival of its data), start_s, finish_s, preemptions,
        alpha_s (Q of A_online when the worker was chosen), t_star_s (the start that was planned
        then), delay_ratio and rate_ratio (the upload delay and the rate of training of the chunk,
        divided by those that its job declares). Chunks of jobs that had not arrived when the run
        was stopped have no row.
    training : DataFrame
        On an edge-cloud, one row per maximal interval in which a chunk trained: job, chunk, server,
        worker, start_s, end_s (NaN if it trained when the run was stopped). With a scheduler of
        whole jobs, rows are for workers of the job, and the chunk is -1.
    held : DataFrame
        On an edge-cloud with a scheduler of whole jobs, one row per worker and interval for which a
        job held it: job, server and worker (-1 in the cloud, with one row for all chunks), start_s,
        data_s (when its data was on all servers that it used), run_s and stop_s (between which it
        trained), end_s, and reason (``"finish"`` or ``"preempt"``). From data_s to run_s, the job
        restored its saved state, and from stop_s to end_s, it saved its state.
    workers : DataFrame
        On an edge-cloud, one row per edge worker: server, worker, type, busy_s, utilisation
        (busy_s over the makespan), jobs (number of jobs that it trained for) and preemptions (of
        chunks on it).
    servers : DataFrame
        On an edge-cloud, one row per server: server, workers, ps, busy_s, utilisation,
        storage_bytes, peak_bytes (largest number of bytes of chunks that it held).
    ps : DataFrame
        On an edge-cloud, one row per maximal interval in which a job trained: job, server and ps
        (-1 in the cloud; parameter servers are numbered within the server), start_s, end_s.
    """

    jobs: pd.DataFrame
    coflows: pd.DataFrame  # all tables except jobs may be None; access then raises an error
    flows: pd.DataFrame
    links: pd.DataFrame
    decisions: pd.DataFrame
    run: Mapping[str, Any]
    spec: Mapping[str, Any] | None = field(default=None)
    computations: pd.DataFrame = _NONE
    gpus: pd.DataFrame = _NONE
    other_coflows: pd.DataFrame = _NONE
    chunks: pd.DataFrame = _NONE
    training: pd.DataFrame = _NONE
    held: pd.DataFrame = _NONE
    workers: pd.DataFrame = _NONE
    servers: pd.DataFrame = _NONE
    ps: pd.DataFrame = _NONE

    @property
    def recorded(self) -> tuple[str, ...]:
        """Names of the tables that are present."""
        return tuple(name for name in TABLES if vars(self)[name] is not None)

    def replace(self, **fields: Any) -> Result:
        """Return a copy with other tables, another `run` or another `spec`.

        Use it in place of `dataclasses.replace`, which fails on tables that were not recorded.

        Parameters
        ----------
        **fields
            New values of fields, by name. None removes a table.
        """
        return Result(**(vars(self) | fields))

    def summary(self) -> dict[str, Any]:
        """Summarise the run: totals, means and percentiles of JCT and CCT, makespan, bytes, cost.

        ``stopped_at_s`` is the instant at which `until` stopped the run; None if all jobs finished.
        """
        return summarise(self.jobs, table_of(self, "coflows"), table_of(self, "gpus"),  # type: ignore[arg-type]
                         self.run)

    @known_names
    def plot(self, kind: str = "timeline", of: str | None = None, *, ax: Axes | None = None,
             between: Sequence[Quantity] | None = None) -> Axes:
        """Draw the run; see `netsim.plots.pictures.PICTURES`.

        Parameters
        ----------
        kind : {"timeline", "gantt", "cdf", "slowdown", "utilisation", "gpus", "usage"}
            ``"timeline"``: active jobs and coflows over time; on an edge-cloud, workers instead of
            coflows. ``"gantt"``: a Gantt chart of jobs and their coflows, or of the training of
            their chunks. ``"cdf"``: the distribution of JCTs or CCTs. ``"slowdown"``: slowdowns by
            class of coflow. ``"utilisation"``: the utilisation of links, or of the workers of an
            edge-cloud, over time. On a cluster, ``"gpus"``: a Gantt chart of GPUs, and ``"usage"``:
            the numbers of GPUs in use and of jobs that wait, over time.
        of : str, optional
            What is shown: for ``"cdf"``, ``"jct"`` (by default) or ``"cct"``; for
            ``"utilisation"``, ``"links"`` (by default, if there are any) or ``"workers"``; for
            ``"gantt"``, ``"coflows"``, ``"training"`` or ``"ranks"``. Of the panels of
            ``"timeline"``, ``"jobs"``, ``"coflows"``, ``"training"`` or ``"decisions"`` alone; of
            those of ``"usage"``, ``"waiting"`` alone.
        ax : Axes, optional
            Axes to draw on; by default those of a new figure. They get one panel: of a kind with
            several, the one that `of` names, or else the first.
        between : (Quantity, Quantity), optional
            The time to draw, such as ``("1s", "2s")``, in pictures over time, except of an
            edge-cloud; by default all. Shares of time are then those of this time.

        Returns
        -------
        Axes
            The first axes; their ``figure`` has all of them.

        Raises
        ------
        UnknownNameError
            If there is no such plot.
        MissingExtraError
            If matplotlib is not installed.
        InputError
            If the plot is not for runs, needs a table that was not recorded, or there is nothing
            to draw; if `ax` is not an Axes; or if `between` is not two times, or the plot is not
            over time.
        """
        return draw(self, kind, "run", of, ax, between=between)

    @known_names
    def save(self, folder: str | Path, format: str = "csv") -> Path:
        """Write the result to a folder atomically; `netsim.load_result` reads it back.

        The folder then holds ``summary.json`` (the summary, the identity of the run, and the
        columns of tables), one file per table and, if the result is of an experiment,
        ``spec.toml``; only tables that the experiment asks for are written then. Floats read back
        exactly.

        Parameters
        ----------
        folder : path-like
            A folder that is new, empty, or holds an earlier result.
        format : {"csv", "parquet"}
            Format of the files of tables. Parquet is smaller and faster to read; it needs the extra
            ``parquet``.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        OutputError
            If the folder cannot be written, or holds other files. Nothing is left behind then.
        UnknownNameError
            If there is no such format.
        MissingExtraError
            If the format is ``"parquet"``, and pyarrow is not installed.
        """
        return save_records(records_of(self), folder, format)

    def to_arrow(self) -> dict[str, pyarrow.Table]:
        """Return the tables as tables of Arrow, which polars and DuckDB read without copying them.

        Columns of numbers share their memory with the data frames, where Arrow can: whoever changes
        these changes both. Texts are copied. Missing values, such as the finish of a job that has
        not finished, are nulls.

        Returns
        -------
        dict of str to pyarrow.Table
            The tables that are present, by name; see `recorded`.

        Raises
        ------
        MissingExtraError
            If pyarrow, of the extra ``parquet``, is not installed.
        """
        return {name: arrow_table(getattr(self, name)) for name in self.recorded}

    def __repr__(self) -> str:
        done = int(self.jobs["finish_s"].notna().sum())
        what = visible(f"{policies_of(self.run)} on {self.run['workload']}")
        return (f"<Result of {what}: {done:,} of {format_count(len(self.jobs), 'job')}, "
                f"total JCT {format_seconds(self.jobs['jct_s'].sum())}>")

    def _repr_html_(self) -> str:
        return shown(repr(self), self.jobs.head(MOST_ROWS), len(self.jobs))


class _LazyTable:
    """A descriptor of `Result` that builds a data frame on first access."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, result: Result | None, _: type) -> Any:
        if result is None:  # access on the class, as by documentation tools
            return self
        table = result.__dict__[self._name]
        if table is None:
            raise not_recorded(result.run, self._name)
        if isinstance(table, LazyTable | FrameColumns):
            table = result.__dict__[self._name] = table.frame()
        return table

    def __set__(self, result: Result, table: pd.DataFrame | LazyTable | FrameColumns | None
                ) -> None:
        result.__dict__[self._name] = table


# Set after the class is made: in its body, a dataclass would take descriptors for defaults.
_TABLES = TABLES[1:]  # without the jobs

for _name in TABLES:
    setattr(Result, _name, _LazyTable(_name))


def result_of(tables: Mapping[str, pd.DataFrame | LazyTable | None], run: Mapping[str, Any]
              ) -> Result:
    """Make the result of a run, without tables that are not given."""
    result = Result.__new__(Result)  # to set all at once: each would be a call of a descriptor
    vars(result).update({**dict.fromkeys(_TABLES), **tables, "run": run, "spec": None})
    return result


def policies_of(run: Mapping[str, Any]) -> str:
    """Name the policies of a run: its scheduler, if any, and the allocator if links were shared.

    Classes of users are named without their modules, as in figures.
    """
    policies = [run.get("scheduler"), run["allocator"] if shares_links(run) else None]
    names = [each["name"] if isinstance(each, Mapping) else each for each in policies if each]
    return ", ".join(bare_names(names).values())


def asked_for(result: Result) -> Result:
    """Drop the tables that a result's experiment, if it has one, does not ask for."""
    spec = result.spec or {}
    asked = spec.get("record", _TABLES)
    kept = {*asked, "gpus", *(("other_coflows",) if "coflows" in asked else ())}
    return result.replace(**{name: None for name in _TABLES if name not in kept})


def table_of(result: Result, name: str) -> pd.DataFrame | LazyTable | None:
    """Return a table without converting a `LazyTable` to a data frame; None if not recorded."""
    table: pd.DataFrame | LazyTable | None = vars(result)[name]
    return table


def records_of(result: Result) -> Records:
    """Return the parts of a result that are stored; see `asked_for`."""
    kept = {**vars(asked_for(result)), "jobs": result.jobs}
    return Records({name: kept[name] for name in TABLES}, result.run, result.spec)


# --- loading -------------------------------------------------------------------------------
@known_names
def load_result(folder: str | Path, *, tables: Collection[str] | None = None) -> Result:
    """Read a result that `Result.save` wrote.

    Parameters
    ----------
    folder : path-like
    tables : collection of str, optional
        Which of the tables ``"flows"``, ``"links"`` and ``"decisions"``, which may be large, to
        read if they were recorded. By default all of them.

    Returns
    -------
    Result

    Raises
    ------
    InputError
        If the folder does not hold a result, or is damaged.
    """
    try:
        return _load(Path(folder), LARGE if tables is None else tables)
    except FileNotFoundError as error:
        raise InputError(f"{folder}: not a result: it has no {Path(error.filename).name}"
                         ) from error
    except OSError as error:
        raise InputError(f"{folder}: not a readable result: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError,
            RecursionError) as error:
        raise InputError(f"{folder}: not a readable result: {error}") from error


def _load(folder: Path, large: Collection[str]) -> Result:
    """Read a result without handling errors."""
    stored = json.loads(read_text(folder / "summary.json"))
    columns = stored.pop("tables")
    if stored.get("gpus", 1) < 1:
        raise ValueError(f"summary.json has {stored['gpus']} GPUs")
    tables = {name: _read_table(folder, name, columns[name])
              if name in columns and (name in large or name not in LARGE) else None
              for name in TABLES}
    summary = summarise(tables["jobs"], tables["coflows"],  # type: ignore[arg-type]
                        tables["gpus"], stored)
    run = {key: value for key, value in stored.items() if key in OF_RUN or key not in summary}
    return Result(**tables, run=run, spec=read_spec(folder))  # type: ignore[arg-type]


def read_spec(folder: Path) -> dict[str, Any] | None:
    """Read the experiment of the results in a folder, if there is one."""
    path = folder / "spec.toml"
    return tomllib.loads(read_text(path)) if path.exists() else None


def _read_table(folder: Path, name: str, columns: Mapping[str, str | list[str]]) -> pd.DataFrame:
    """Read a table with the given column types, from Parquet if present, otherwise from CSV."""
    path = folder / f"{name}.parquet"
    if path.exists():
        found, typed = read_parquet(path), _typed
    else:  # As text first: not all versions of pandas parse floats exactly.
        path = path.with_suffix(".csv")
        found, typed = read_csv(path, dtype=str, keep_default_na=False), _parsed
    if found.columns.tolist() != list(columns):
        raise ValueError(f"{path.name} has the columns {found.columns.tolist()}, not "
                         f"{list(columns)}")
    return pd.DataFrame({name: typed(found[name], kind) for name, kind in columns.items()})


def _typed(column: pd.Series, kind: str | list[str]) -> Any:
    """Check the values of a Parquet column and convert them to their type."""
    if kind == "str":
        return column.fillna("")
    if isinstance(kind, list):
        return pd.Categorical(_one_of(kind, column), categories=kind)
    return column.to_numpy().astype(kind)


def _parsed(column: pd.Series, kind: str | list[str]) -> Any:
    """Convert a column of texts to its type."""
    if kind == "str":
        return column
    if kind == "bool":
        return _one_of(["True", "False"], column) == "True"
    if isinstance(kind, list):
        return pd.Categorical(_one_of(kind, column), categories=kind)
    return np.array([each or "nan" for each in column], dtype=object).astype(kind)


def _one_of(allowed: list[str], text: pd.Series) -> pd.Series:
    """Check that all texts are among the allowed ones."""
    others = text[~text.isin(allowed)]
    if len(others):
        raise ValueError(f"column {text.name!r} holds {others.iloc[0]!r}, which is not one of "
                         f"{reprlib.repr(allowed)}")
    return text
