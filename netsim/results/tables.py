"""The tables of a run: which can be recorded, their columns and rows, and the ids of coflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats, Ints
from netsim.base.lazy import pd
from netsim.errors import InputError
from netsim.fabric.records import FLOW
from netsim.jobs.patterns import make_pattern, model_stages
from netsim.jobs.plan import count_operations, drawn_stages, has_operations
from netsim.workload import JobSpec, Stage, Workload
from netsim.workload.job import JobColumns, columns_of

if TYPE_CHECKING:
    from netsim.fabric.clock import CoflowEvent

#: Names of the tables that can be recorded; jobs always are.
RECORDS = ("coflows", "computations", "decisions", "flows", "jobs", "links")

#: Tables on links, which do not exist if rates are constant.
OF_LINKS = ("links", "decisions")

IntOrInts = int | Ints


# --- ids of coflows ------------------------------------------------------------------------
class CoflowNumbers:
    """Numbers coflows by job, iteration and stage; ids that stages specify are not reused.

    If jobs emit no coflows, they count as jobs without stages.
    """

    def __init__(self, workload: Workload, emitted: bool = True) -> None:
        self._jobs = jobs = workload.jobs
        ids, iterations = columns_of(jobs, "id", "iterations")
        self.job_ids = np.array(ids, np.int64)
        #: Stages of each job per iteration.
        self.stages = (np.array(_stage_counts(jobs), np.int64) if emitted else
                       np.zeros(len(jobs), np.int64))
        #: Coflows of each job in all iterations.
        self.coflows = self.stages * np.array(iterations, np.int64)
        self._first = np.cumsum(self.coflows) - self.coflows
        self.total = int(self.coflows.sum())  #: including stages without flows
        taken = _own_ids(jobs)
        # Number of free ids below each id that is taken.
        self._free_below = np.array(taken, np.int64) - np.arange(len(taken))

    def last_of(self, jobs: int) -> int:
        """Return the largest assigned id of the first `jobs` jobs; -1 if none is assigned."""
        count = int(self.coflows[:jobs].sum())
        return int(self._numbered(np.int64(count - 1))) if count else -1

    def number(self, job: int, iteration: int, stages: Sequence[Stage], stage: int) -> int:
        """The id of the coflow of a stage, among all stages of an iteration.

        `job` is an index in order of (arrival, id).
        """
        own = stages[stage].coflow_id
        if own is not None:
            return own
        count = len(stages)
        if count != self.stages[job]:  # stages inside servers do not count
            count -= sum(each.intra_server for each in stages)
        self.check_stages(job, iteration, count)
        return int(self.free(job, iteration, stage))

    def check_stages(self, job: int, iteration: int, stages: int) -> None:
        """Check that an iteration has as many stages as the ones before."""
        if stages != (count := int(self.stages[job])):
            raise InputError(f"job {self._jobs[job].id}: its pattern draws {stages} stages in "
                             f"iteration {iteration}, where it drew {count} before; their number "
                             "must depend on the ranks alone")

    def free(self, job: IntOrInts, iteration: IntOrInts, stage: IntOrInts) -> Ints:
        """The ids of coflows whose stages specify none; see `number`."""
        return self._numbered(np.asarray(
            self._first[job] + iteration * self.stages[job] + stage, np.int64))

    def _numbered(self, free: Ints | np.int64) -> Ints:
        return np.asarray(free + np.searchsorted(self._free_below, free, "right"))


def _own_ids(jobs: Sequence[JobSpec]) -> list[int]:
    """Return the ids of coflows that stages specify, in order."""
    if isinstance(jobs, JobColumns):
        ids = jobs.columns.coflow_id
        return np.sort(ids[ids >= 0]).tolist()
    return sorted(stage.coflow_id for job in jobs for stage in job.stages
                  if stage.coflow_id is not None)


def _stage_counts(jobs: Sequence[JobSpec]) -> Sequence[int]:
    """Count the stages of each job, drawing once per pattern and number of ranks."""
    if isinstance(jobs, JobColumns):
        return [1] * len(jobs)
    known: dict[Any, int] = {}
    return [_count(job, known) for job in jobs]


def _count(job: JobSpec, known: dict[Any, int]) -> int:
    if has_operations(job):
        return count_operations(job)
    return len(job.stages) or _drawn_count(job, known)


def _drawn_count(job: JobSpec, known: dict[Any, int]) -> int:
    """Count the stages of a job that has a model or a pattern."""
    if job.model is not None:
        return len(model_stages(job.model))
    pattern: Any = job.pattern
    key = repr(pattern) if isinstance(pattern, str | Mapping) else id(pattern), job.ranks
    if key not in known:
        count = len(drawn_stages(job, np.random.default_rng(0)))
        if not getattr(make_pattern(pattern), "scale_free", True):
            return count  # of these bytes
        known[key] = count
    return known[key]


# --- rows ----------------------------------------------------------------------------------

DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(columns) for name, columns in {
    "coflows": [("coflow", "i8"), ("job", "i8"), ("iteration", "i8"), ("stage", "i4"),
                ("valid_s", "f8"), ("start_s", "f8"), ("finish_s", "f8"), ("cct_s", "f8"),
                ("bytes", "f8"), ("longest_bytes", "f8"), ("width", "i8"), ("gamma_s", "f8"),
                ("deadline_s", "f8")],
    "flows": [("coflow", "i8"), ("job", "i8"), ("flow", "i8"), ("src", "i8"), ("dst", "i8"),
              ("bytes", "f8"), ("valid_s", "f8"), ("finish_s", "f8")],
    "links": [("start_s", "f8"), ("end_s", "f8"), ("link", "i8"), ("bytes", "f8"),
              ("capacity", "f8")],
    "computations": [("job", "i8"), ("iteration", "i8"), ("rank", "i8"), ("stage", "i4"),
                     ("stream", "i4"), ("start_s", "f8"), ("finish_s", "f8")],
    "decisions": [("time_s", "f8"), ("jobs", "i8"), ("coflows", "i8"), ("flows", "i8")],
}.items()}

#: The same, where links or stages add something to bytes on their way.
WITH_WIRE = DTYPES | {name: np.dtype([*DTYPES[name].descr, ("begin_s", "f8"), ("sent_s", "f8"),
                                      ("wire_bytes", "f8")]) for name in ("coflows", "flows")}

#: The columns of `Result.other_coflows`.
OF_OTHERS: dict[str, Any] = {
    "job": "i8", "iteration": "i8", "stage": object, "valid_s": "f8", "start_s": "f8",
    "end_s": "f8", "bytes": "f8", "why": object}


def coflow_rows(which: Mapping[str, Any], sent: Mapping[str, Any]) -> NDArray[Any]:
    """Make rows of ``WITH_WIRE["coflows"]`` of coflows, given as columns.

    `which` has coflow, job, iteration and stage, `sent` all others but ``cct_s``: see `of_events`
    and `of_records`.
    """
    rows = np.empty(len(which["coflow"]), WITH_WIRE["coflows"])
    for name, values in (*which.items(), *sent.items()):
        rows[name] = values
    rows["cct_s"] = rows["finish_s"] - rows["valid_s"]
    return rows


def of_events(events: Sequence[CoflowEvent]) -> dict[str, NDArray[Any]]:
    """Return times and sizes of coflows that processes have submitted."""
    demands = [event.demand for event in events]
    known = {id(demand): demand.stands_for or demand for demand in demands}
    place = dict(zip(known, range(len(known)), strict=True))
    which = np.array([place[id(demand)] for demand in demands], np.int64)
    columns = {name: np.array([getattr(event, name) for event in events]) for name in (
        "valid_s", "begin_s", "start_s", "sent_s", "finish_s")}
    for name, values in (
            ("bytes", [demand.payload for demand in known.values()]),
            ("wire_bytes", [demand.nbytes for demand in known.values()]),
            ("longest_bytes", [demand.coflows["longest"][0] for demand in known.values()]),
            ("width", [len(demand.flows) for demand in known.values()]),
            ("gamma_s", [demand.gamma for demand in known.values()]),
            ("deadline_s", [demand.deadline_s for demand in known.values()])):
        columns[name] = np.array(values)[which]
    return columns | {"deadline_s": columns["valid_s"] + columns["deadline_s"]}


def of_records(done: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return times and sizes of coflows without a process, from their COFLOW rows."""
    columns = {name: done[known_as] for name, known_as in (
        ("begin_s", "valid"), ("start_s", "start"), ("sent_s", "last"), ("finish_s", "arrives"),
        ("bytes", "payload"), ("wire_bytes", "total"), ("longest_bytes", "longest"),
        ("width", "flows"), ("gamma_s", "nominal_gamma"), ("deadline_s", "deadline"))}
    return columns | {"valid_s": done["valid"] - done["overhead"]}


def flow_rows(coflows: NDArray[Any], sent: Sequence[bytes]) -> NDArray[Any]:
    """Make rows of the flows of coflows, given the rows of these and the FLOW rows of each."""
    counts = np.array([len(each) for each in sent]) // FLOW.itemsize
    flows = np.frombuffer(b"".join(sent), FLOW)
    rows = np.empty(len(flows), WITH_WIRE["flows"])
    for name in ("coflow", "job", "valid_s", "begin_s", "sent_s"):
        rows[name] = np.repeat(coflows[name], counts)
    for name, known_as in (("flow", "index"), ("src", "src"), ("dst", "dst"),
                           ("bytes", "payload"), ("wire_bytes", "size")):
        rows[name] = flows[known_as]
    # Of flows in step only their coflow knows when they have ended.
    rows["sent_s"] = np.where(flows["remaining"] > 0, rows["sent_s"], flows["finish"])
    rows["finish_s"] = rows["sent_s"] + flows["latency"]
    return rows


def other_rows(rows: Sequence[tuple[Any, ...]], columns: Mapping[str, Any]) -> pd.DataFrame:
    """Make a table of coflows without rows of their own; `columns` has the kind of each column."""
    values = zip(*rows, strict=True) if rows else [()] * len(columns)
    return pd.DataFrame({name: np.array(list(column), kind) for (name, kind), column
                         in zip(columns.items(), values, strict=True)})


def packed(rows: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Copy only the columns of another structured dtype."""
    if rows.dtype == dtype:
        return rows
    found = np.empty(len(rows), dtype)
    for name in dtype.names or ():
        found[name] = rows[name]
    return found


def link_rows(moves: Sequence[tuple[float, float, Floats]], capacity: Floats) -> NDArray[Any]:
    """Make rows of links that carried bytes, or could carry none as they have failed (capacity 0).

    Each of `moves` has the start and the end of an interval, and the bytes that each link carried.
    """
    start, end, parts = zip(*moves, strict=True)
    carried = np.array(parts)
    which, link = np.nonzero((carried > 0) | (capacity <= 0))
    rows = np.empty(len(which), DTYPES["links"])
    rows["start_s"], rows["end_s"] = np.array(start)[which], np.array(end)[which]
    rows["link"], rows["bytes"], rows["capacity"] = link, carried[which, link], capacity[link]
    return rows
