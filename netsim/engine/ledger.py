"""The accounts of jobs: the GPUs that they held, when and how they used them; and estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Floats, Ints
from netsim.base.values import Rows
from netsim.cluster.cluster import Cluster, has_equal_servers, server_kind
from netsim.cluster.ring import has_model, model_of
from netsim.engine.executions import Execution
from netsim.engine.preemption import Preemption
from netsim.models import ParallelModel
from netsim.models.iteration_time import alpha_min_bound
from netsim.ties import is_now
from netsim.workload import JobSpec

# --- estimates -----------------------------------------------------------------------------

#: Estimated seconds per iteration of a job without an estimate: SJF-BCO, Section 7.
_ESTIMATE_S = 0.05


def estimates_of(jobs: Sequence[JobSpec]) -> Floats:
    """The estimated running time of each job in seconds; by default 0.05 s per iteration."""
    return np.array([_ESTIMATE_S * job.iterations if job.estimate_s is None else job.estimate_s
                     for job in jobs])


def expected_iterations(jobs: Sequence[JobSpec], cluster: Cluster) -> Floats:
    """Estimate the seconds of an iteration of each job.

    A job's own estimate is used if it has one. Otherwise, if the job is a model or a ring and all
    servers are equal, it is the shortest time on the cluster. In all other cases, it is 0.05 s.
    """
    known: dict[ParallelModel, float] = {}
    return np.array([_expected(job, cluster, known) for job in jobs])


def expected_times(jobs: Sequence[JobSpec], cluster: Cluster) -> Floats:
    """Estimate the running time of each job in seconds; see `expected_iterations`."""
    iterations_s = expected_iterations(jobs, cluster)
    return np.array([each * job.iterations if job.estimate_s is None else job.estimate_s
                     for job, each in zip(jobs, iterations_s.tolist(), strict=True)])


def _expected(job: JobSpec, cluster: Cluster, known: dict[ParallelModel, float]) -> float:
    if job.estimate_s is not None:
        return job.estimate_s / job.iterations
    if not (has_model(job) and has_equal_servers(cluster)):
        return _ESTIMATE_S
    model = model_of(job)
    if model not in known:
        known[model] = alpha_min_bound(model, server_kind(cluster))
    return known[model]


# --- accounts ------------------------------------------------------------------------------

#: Columns of the accounts with their values at first. Times are NaN before they are known.
_AT_FIRST: dict[str, float | int] = {
    "gpus": 0,  # number of GPUs that it needs
    "kept": 0.0,  # iterations that it cannot lose any more
    "got": math.nan,  # when it got the GPUs that it holds; NaN without any
    "ready": math.nan,  # when its progress on them begins, as far as known; inf if it is not
    "expected": math.nan,  # when it should begin, as the job declares, if `ready` is not known
    "stop": math.nan,  # when its progress on them ended, if it saves
    "held_s": 0.0,  # seconds for which it held GPUs, before the present ones
    "run_s": 0.0,  # seconds in which it made progress, before its present run
    "useful_s": 0.0,  # seconds of these whose progress was kept
    "first_start": math.nan,
    "end": math.nan,
    "waits_since": math.nan,  # its arrival, or when it last gave up GPUs
    "preemptions": 0,
    "restarts": 0,
    "lost_s": 0.0,  # seconds of progress that faults cost
    "in_vain": 0}  # preemptions in a row that kept nothing


@dataclass(slots=True, eq=False)
class Segment:
    """A period in which a job holds the same GPUs; the record does not change once it is over."""

    job: int
    gpus: Ints
    got: float
    run: float = math.nan  #: when its progress began, in seconds; NaN before
    stop: float = math.nan
    free: float = math.nan
    reason: str | None = None  #: of its end: ``"finish"``, ``"preempt"`` or ``"fault"``
    #: Iterations that the job had kept when it got the GPUs; once the segment is over, iterations
    #: that it keeps after the segment.
    kept: float = 0.0
    lost_s: float = 0.0  #: seconds of its progress that were lost
    #: When the data or state that it needs arrived, or should arrive, at the servers of the GPUs.
    there: float = math.nan


class Ledger:
    """Accounts of all jobs of a run.

    The time for which a job held GPUs is useful, lost or overhead: progress that was kept, progress
    that was not kept, and restoring, moving and saving.
    """

    def __init__(self, jobs: Sequence[JobSpec]) -> None:
        self.rows = _rows(jobs)  #: the columns of `_AT_FIRST`, each of shape (jobs,)
        self.segments: list[Segment] = Rows()  #: those that are over, in the order of their ends
        self.open: dict[int, Segment] = {}  #: those of jobs that hold GPUs

    def add_job(self, job: int, jobs: Sequence[JobSpec]) -> None:
        """Insert the row of a job that has not arrived."""
        new = _rows([jobs[job]])
        self.rows |= {name: np.insert(column, job, new[name])
                      for name, column in self.rows.items()}

    # --- what happens ---------------------------------------------------------------------

    def take(self, job: int, gpus: Ints, now: float) -> Segment:
        """Record that a job gets GPUs."""
        rows = self.rows
        self.open[job] = segment = Segment(job, gpus, now, kept=float(rows["kept"][job]))
        rows["got"][job] = now
        if math.isnan(rows["first_start"][job]):
            rows["first_start"][job] = now
        return segment

    def run(self, job: int, now: float) -> None:
        """Record that a job's progress begins."""
        self.open[job].run = self.rows["ready"][job] = now

    def lose_part(self, job: int, lost_s: float) -> None:
        """Record that a job whose progress begins repeats the part of an iteration that it kept."""
        rows, segment = self.rows, self.open[job]
        rows["kept"][job] = segment.kept = math.floor(segment.kept)
        rows["useful_s"][job] -= lost_s

    def stop(self, job: int, now: float, kept: float, lost_s: float) -> None:
        """Record that a job's progress ends, and that `lost_s` seconds of it are lost."""
        rows, segment = self.rows, self.open[job]
        if math.isnan(segment.run):
            segment.run = now
        segment.stop = rows["stop"][job] = now
        rows["run_s"][job] += now - segment.run
        rows["useful_s"][job] += now - segment.run - lost_s
        rows["kept"][job] = kept
        segment.lost_s = lost_s

    def free(self, job: int, now: float, reason: str) -> None:
        """Record that a job gives its GPUs back."""
        rows, segment = self.rows, self.open.pop(job)
        segment.free, segment.reason, segment.kept = now, reason, float(rows["kept"][job])
        rows["held_s"][job] += now - segment.got
        for name in ("got", "ready", "expected", "stop"):
            rows[name][job] = math.nan
        self.segments.append(segment)

    def revert(self, job: int) -> None:
        """Discard all that a job made since it got its current GPUs."""
        rows, segment = self.rows, self.open[job]
        rows["useful_s"][job] -= segment.stop - segment.run - segment.lost_s
        rows["kept"][job] = segment.kept
        segment.lost_s = segment.stop - segment.run

    # --- what there is --------------------------------------------------------------------

    def held_s(self, jobs: Any, now: float) -> Any:
        """The seconds for which jobs have held GPUs, restoring and saving included."""
        rows = self.rows
        return rows["held_s"][jobs] + np.fmax(now - rows["got"][jobs], 0.0)

    def run_s(self, jobs: Any, now: float) -> Any:
        """The seconds for which jobs have made progress, kept or lost."""
        rows = self.rows
        present = np.fmax(now - rows["ready"][jobs], 0.0)
        return rows["run_s"][jobs] + np.where(np.isnan(rows["stop"][jobs]), present, 0.0)

    def accounts(self, now: float) -> dict[str, Any]:
        """The GPU-seconds that each job held, in total and as useful, lost and overhead."""
        rows = self.rows
        every = slice(None)
        held, ran = self.held_s(every, now), self.run_s(every, now)
        # Progress since the last start is not lost yet.
        useful = rows["useful_s"] + (ran - rows["run_s"])
        return {name: rows["gpus"] * seconds for name, seconds in (
            ("held_gpu_s", held), ("useful_gpu_s", useful), ("lost_gpu_s", ran - useful),
            ("overhead_gpu_s", held - ran))}


class JobAccounts:
    """What schedulers may read of the jobs; most methods take a job or an array of jobs."""

    def __init__(self, env: Any, ledger: Ledger, execution: Execution, options: Preemption,
                 cluster: Cluster, jobs: Sequence[JobSpec]) -> None:
        self._env, self._ledger, self._execution, self._options = env, ledger, execution, options
        self._cluster = cluster
        self.set_jobs(jobs)

    def set_jobs(self, jobs: Sequence[JobSpec]) -> None:
        """Set the jobs of the run; at most one of them is new."""
        self._iterations = np.array([job.iterations for job in jobs], np.float64)
        self.weight = np.array([job.weight for job in jobs], np.float64)
        self.weight.flags.writeable = False
        self._expected_s = expected_iterations(jobs, self._cluster)

    def at(self, field: str, jobs: Any) -> Any:
        """A column of the ledger, for the given jobs."""
        return self._ledger.rows[field][jobs]

    def ready(self, jobs: Any) -> Any:
        """When the progress of jobs on their GPUs begins or should begin, in seconds."""
        rows = self._ledger.rows
        return np.fmin(rows["ready"][jobs], rows["expected"][jobs])

    def ranks(self, jobs: Any) -> Any:
        """The numbers of GPUs that jobs need."""
        return self._ledger.rows["gpus"][jobs]

    def held_s(self, jobs: Any) -> Any:
        """See `Ledger.held_s`."""
        return self._ledger.held_s(jobs, self._env.now)

    def run_s(self, jobs: Any) -> Any:
        """See `Ledger.run_s`."""
        return self._ledger.run_s(jobs, self._env.now)

    def progress(self, jobs: Any) -> Any:
        """The iterations that jobs have made, with the part of the current one."""
        rows = self._ledger.rows
        runs = (rows["ready"][jobs] <= self._env.now) & np.isnan(rows["stop"][jobs])
        if runs.all():
            return self._execution.progress(jobs)
        made = np.array(rows["kept"][jobs])
        made[runs] = self._execution.progress(np.asarray(jobs)[runs])
        return made if made.ndim else float(made)

    def remaining_s(self, jobs: Any) -> Any:
        """The expected seconds of the iterations that jobs have not made."""
        return (self._iterations[jobs] - self.progress(jobs)) * self._expected_s[jobs]

    def saves(self, job: int) -> bool:
        """Whether a job preempted now would hold its GPUs longer, to save its progress."""
        return self._options.checkpoint_s > 0 and self.grew(job)

    def grew(self, job: int) -> bool:
        """Whether a job preempted now would keep more than it had when it got its GPUs."""
        if self._options.keep == "fraction":
            ready, now = float(self.at("ready", job)), self._env.now
            return ready < now and not is_now(ready, now)
        return self.finished(job) > self.at("kept", job)

    def kept(self, job: int) -> float:
        """The iterations that a job would keep if it were preempted now."""
        if self._options.keep != "fraction":
            return self.finished(job)
        return float(self.progress(job) if self.grew(job) else self.at("kept", job))

    def finished(self, job: int) -> float:
        """The iterations that a job would keep if it lost a server: only whole ones."""
        kept = float(self.at("kept", job))
        if not self.at("ready", job) <= self._env.now:
            return kept
        return max(self._execution.finished(job), kept)


def _rows(jobs: Sequence[JobSpec]) -> dict[str, NDArray[Any]]:
    rows = {name: np.full(len(jobs), value) for name, value in _AT_FIRST.items()}
    rows["gpus"][:] = [job.ranks for job in jobs]
    return rows
