"""What a run gives back: data frames, a summary, and a folder on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.results.drawing import draw
from netsim.results.lazy_table import LazyTable
from netsim.results.not_recorded import not_recorded
from netsim.results.store import TABLES, Records, save_records
from netsim.results.summary import summarise
from netsim.text import visible

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["EDGE_TABLES", "Result", "asked_for", "records_of", "table_of"]

#: Those of a run on an edge-cloud, besides that of jobs.
EDGE_TABLES = ("chunks", "training", "workers", "servers", "ps")

#: What a field of a table that there may not be begins with.
_NONE: Any = None


@dataclass(frozen=True)
class Result:
    """The records of one run.

    A table may be given as `LazyTable`; it becomes a data frame when it is first looked at. Looking
    at a table that the run did not record, that runs of its kind do not have, or that was left out
    when it was read back, raises a `NotRecordedError`, which says how to have it; `recorded` names
    those that there are.

    Attributes
    ----------
    jobs : DataFrame
        One row per job: job, name, arrival_s, start_s (first byte), finish_s, jct_s,
        iterations, ranks, coflows, bytes, lower_bound_s. Times of a job that had not
        finished when the run was stopped are NaN. On a `netsim.Cluster` also queue_s (from arrival
        to its start, which start_s then is), gpus, servers (how many of each) and placement
        (``"0:2 3:1"``: two GPUs of server 0, one of server 3). On a `netsim.EdgeCloud` also
        queue_s (from arrival to its first training, which start_s then is), type, chunks,
        cloud_chunks, zeta (1 if all are in the cloud), preemptions and communication_s. Where
        jobs restart on the loss of a host: restarts (how often), lost_s (in the iterations that
        were started over) and, of jobs that send, lost_bytes (sent in them; not among bytes).
    recorded : tuple of str
        The names of the tables that there are.
    coflows : DataFrame
        One row per completed coflow: coflow, job, iteration, stage, valid_s, start_s,
        finish_s, cct_s, bytes, longest_bytes (of its longest flow), width (flows with bytes),
        gamma_s (effective bottleneck), deadline_s (the instant by which it was to finish; NaN
        if there is none).
    flows, links, decisions : DataFrame
        Where recorded: a row per flow; per link and interval of constant rates in which it
        carried bytes, with its capacity then, in bytes per second; per decision, with what
        the policy inferred. Recorded for a timeline alone, they are coarser: see `timeline` of
        `netsim.simulate`.
    run : mapping
        What identifies the run: allocator, network, workload, seed, version, platform, on a
        cluster also cluster, scheduler, placement and execution; sharing, who got the bandwidth
        that the allocator's order left over and when rates were decided (nothing where no links
        were shared);
        ``stopped_at_s``, when `until` stopped it (None if all jobs finished); its cost:
        decisions, simpy_events, wall_s; what the allocator has counted: counts; and how many
        coflows were overdue when it was stopped: overdue.
    spec : mapping or None
        The experiment file that it came from, resolved.
    gpus : DataFrame
        Of a run on a `netsim.Cluster`, one row per job and GPU that it had: job, server, gpu (of
        the server), start_s, end_s.
    chunks : DataFrame
        Of a run on a `netsim.EdgeCloud` under a scheduler of chunks, one row per chunk: job, chunk
        (of the job), server, worker (of the server; -1 both in the cloud), dispatch_s, ready_s
        (its data is there), start_s, finish_s, preemptions, alpha_s (Q at selection), t_star_s
        (the start planned then).
    training : DataFrame
        On an edge-cloud, one row per longest interval in which a chunk trained: job, chunk, server,
        worker, start_s, end_s; of a scheduler of whole jobs, in which one of its workers did, and
        the chunk is -1.
    workers, servers : DataFrame
        On an edge-cloud, one row per worker at the edge: server, worker, type, busy_s, utilisation
        (busy_s over the makespan), jobs (that it trained for), preemptions (on it; chunks only);
        and per server: workers, ps, busy_s, utilisation, storage_bytes, peak_bytes (the most that
        it held; chunks only).
    ps : DataFrame
        On an edge-cloud, one row per longest interval in which a job trained: job, server, ps (of
        the server; -1 both in the cloud), start_s, end_s.
    """

    jobs: pd.DataFrame
    coflows: pd.DataFrame  # each table but that of jobs may be None; to look at it is an error then
    flows: pd.DataFrame
    links: pd.DataFrame
    decisions: pd.DataFrame
    run: Mapping[str, Any]
    spec: Mapping[str, Any] | None = field(default=None)
    gpus: pd.DataFrame = _NONE
    chunks: pd.DataFrame = _NONE
    training: pd.DataFrame = _NONE
    workers: pd.DataFrame = _NONE
    servers: pd.DataFrame = _NONE
    ps: pd.DataFrame = _NONE

    @property
    def recorded(self) -> tuple[str, ...]:
        """The names of the tables that there are."""
        return tuple(name for name in ("jobs", *_TABLES) if vars(self)[name] is not None)

    def replace(self, **fields: Any) -> Result:
        """Return a result with other tables, another `run` or another `spec`.

        As `dataclasses.replace`, which would look at all tables, those that were not recorded too.

        Parameters
        ----------
        **fields
            By name. None takes a table away.
        """
        return Result(**(vars(self) | fields))

    def summary(self) -> dict[str, Any]:
        """Return total, mean and percentile JCT and CCT, makespan, bytes, and the run's cost.

        ``stopped_at_s`` says when `until` stopped the run; None if all jobs finished.
        """
        return summarise(self.jobs, table_of(self, "coflows"), table_of(self, "gpus"),  # type: ignore[arg-type]
                         self.run)

    def plot(self, kind: str = "timeline", of: str | None = None) -> Axes:
        """Draw the run; see `netsim.plots.pictures.PICTURES`.

        Parameters
        ----------
        kind : {"timeline", "gantt", "cdf", "slowdown", "utilisation"}
            Jobs and coflows that are active over time; a row per job with its coflows; the
            distribution of JCTs or CCTs; slowdowns by class of coflow; the utilisation of
            links over time.
        of : {"jct", "cct"}, optional
            What ``"cdf"`` is of; JCTs if not given.

        Returns
        -------
        Axes
            The first where there are several; its ``figure`` has all.

        Raises
        ------
        UnknownNameError
            If there is no such picture.
        MissingExtraError
            If matplotlib is not installed.
        InputError
            If it is a picture of something else, what it needs was not recorded, or there is
            nothing to draw.
        """
        return draw(self, kind, "run", of)

    def save(self, folder: str | Path) -> Path:
        """Write the run to a folder, all of it or nothing; `netsim.load_result` reads it back.

        The folder then holds ``summary.json`` (the summary, what identifies the run, and the
        columns of the tables), ``spec.toml`` if the result is of an experiment, and one ``.csv``
        per table; of an experiment's result, those that it asks for. Floats read back exactly.

        Parameters
        ----------
        folder : path-like
            New, empty, or an earlier result.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        OutputError
            If the folder cannot be written, or holds something else. Nothing is left behind.
        """
        return save_records(records_of(self), folder)

    def __repr__(self) -> str:
        done = int(self.jobs["finish_s"].notna().sum())
        what = visible(f"{self.run['allocator']['name']} on {self.run['workload']}")
        return (f"<Result of {what}: "
                f"{done} of {len(self.jobs)} jobs, total JCT {self.jobs['jct_s'].sum():.6g} s>")


class _Table:
    """A field of `Result` whose data frame is made when it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, result: Result | None, _: type) -> Any:
        if result is None:  # of the class, as documentation asks
            return self
        table = result.__dict__[self._name]
        if table is None:
            raise not_recorded(result.run, self._name)
        if isinstance(table, LazyTable):
            table = result.__dict__[self._name] = table.frame()
        return table

    def __set__(self, result: Result, table: pd.DataFrame | LazyTable | None) -> None:
        result.__dict__[self._name] = table


# Not in the class's body, where a dataclass would take them for defaults.
_TABLES = ("coflows", "flows", "links", "decisions", "gpus", *EDGE_TABLES)
for _name in _TABLES:
    setattr(Result, _name, _Table(_name))


def asked_for(result: Result) -> Result:
    """Return a result without the tables that its experiment does not ask for, if it has one."""
    spec = result.spec or {}
    asked = spec.get("record", _TABLES)
    return result.replace(**{name: None for name in _TABLES
                             if name not in asked and name != "gpus"})


def table_of(result: Result, name: str) -> pd.DataFrame | LazyTable | None:
    """Return a table as it is: still `LazyTable` where nobody has asked for the data frame."""
    table: pd.DataFrame | LazyTable | None = vars(result)[name]
    return table


def records_of(result: Result) -> Records:
    """Select what is stored of a result: of an experiment's, the tables that it asks for."""
    kept = vars(asked_for(result))
    return Records({name: kept[name] for name in TABLES}, result.run, result.spec)
