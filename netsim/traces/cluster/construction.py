"""Jobs of a trace as jobs of a workload: a model to train for each, and how many iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError
from netsim.models import ParallelModel
from netsim.models.catalogue import models_for
from netsim.plain import plain_numbers
from netsim.streams import stream
from netsim.traces.cluster.columns import ClusterJobs, share_of
from netsim.traces.problems import Problem, Rule, TraceProblemsError, whole_option
from netsim.units import Quantity, parse_rate
from netsim.workload import History, JobSpec, Workload

__all__ = ["ClusterConstruction", "TraceWorkload", "cluster_facts"]

_TOO_LARGE = "asked for more GPUs than max_gpus"
_MOST_ITERATIONS = 10**15
#: Mapping a job takes seconds for so many replicas, and a minute for twice as many.
_MOST_GPUS = 4096
_PAST = "came after the first that limit allows"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TraceWorkload(Workload):
    """A workload with an account of how it was made of a trace.

    Attributes
    ----------
    read : int
        How many jobs the trace has.
    dropped : mapping of str to int
        How many of them were dropped, by the reason.
    notes : mapping of str to int
        How many of those kept were read otherwise than they stand there.
    """

    read: int = field(default=0, kw_only=True)
    dropped: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    notes: Mapping[str, int] = field(default_factory=dict, kw_only=True)


@plain_numbers
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConstruction:
    """How jobs of a GPU cluster's trace become jobs that train models (A-SRPT).

    A trace says how many GPUs a job has and how long it ran, and not what it trains. A job gets
    one of the models of the catalogue that run on so many GPUs, drawn for its group, so that jobs
    of a group train the same. It has max(1, duration/alpha~_min) iterations, rounded to the nearest
    whole number, as a job repeats whole iterations; alpha~_min is what an iteration takes on as few
    servers as can be, mapped by Heavy-Edge.

    Attributes
    ----------
    limit : int, optional
        Only the first so many jobs that are left.
    train : float
        The share of the jobs, by the time of submission and rounded down, that become the
        workload's history: what predictors learn from. The others are its jobs. 0: no history.
    max_gpus : int, optional
        Drop jobs that ask for more. There must be none with more than 4,096.
    arrival_scale : float
        Factor of the times of submission.
    base_nic : quantity
        Rate of a server's NIC for which iterations are counted. They stay as they are for
        simulations of others.
    intra : quantity
        Rate inside a server, for the same.
    gpus_per_server : int
        For the same.

    Raises
    ------
    InputError
        If an option is out of range.
    """

    limit: int | None = None
    train: float = 0.8
    max_gpus: int | None = None
    arrival_scale: float = 1.0
    base_nic: Quantity = "10Gbps"
    intra: Quantity = "300GB/s"
    gpus_per_server: int = 8

    def __post_init__(self) -> None:
        for name in ("limit", "max_gpus", "gpus_per_server"):
            if getattr(self, name) is not None or name == "gpus_per_server":
                whole_option(getattr(self, name), name, 1)
        if Rule().number(self.arrival_scale) is None:
            raise InputError(f"arrival_scale must be {Rule()}, not {self.arrival_scale!r}")
        if Rule(0, 1).number(self.train) is None or self.train == 1:
            raise InputError(f"train must be a number from 0 to less than 1, not {self.train!r}")
        for name in ("base_nic", "intra"):
            parse_rate(getattr(self, name), name, strict=True)

    def workload(self, jobs: ClusterJobs, name: str, seed: int = 0) -> TraceWorkload:
        """Return the workload.

        Parameters
        ----------
        jobs : ClusterJobs
            What is left of a trace.
        name : str
            The workload's label.
        seed : int
            Seed of the models that groups train, and of the workload.

        Raises
        ------
        InputError
            If no jobs are left, or none as history where some are to be.
        """
        picked, dropped = self._picked(jobs)
        known = share_of(len(picked), self.train)
        if self.train and not 0 < known < len(picked):
            raise InputError(f"train = {self.train:g} of {len(picked):,} jobs leaves none as "
                             "history, or none to run; 0 is for no history")
        models, which, iterations = self._models(jobs, picked, seed)
        earlier, later = picked[:known], picked[known:]
        history = None if not known else History(
            jobs.group[earlier].astype(np.int64), jobs.user[earlier].astype(np.int64),
            iterations[:known])
        columns = (jobs.submit_s[later] * self.arrival_scale, iterations[known:],
                   jobs.group[later], jobs.user[later], which[known:])
        specs = [JobSpec(number, arrival_s, int(count), group=group, user=user,
                         model=models[place], name=models[place].name)
                 for number, (arrival_s, count, group, user, place) in enumerate(
                     zip(*(column.tolist() for column in columns), strict=True), known)]
        return TraceWorkload(specs, name, seed=seed, history=history, read=jobs.read,
                             dropped=dropped, notes=jobs.notes)

    def of_file(self, jobs: ClusterJobs, path: str | Path, seed: int = 0) -> TraceWorkload:
        """Return the workload of a file's jobs, under the file's name.

        Raises
        ------
        TraceProblemsError
            Where `workload` raises; it names the file.
        """
        try:
            return self.workload(jobs, Path(path).stem, seed)
        except InputError as error:
            raise TraceProblemsError([Problem(None, str(error))], path) from error

    def _picked(self, jobs: ClusterJobs) -> tuple[NDArray[np.int64], dict[str, int]]:
        """Return the places of the jobs that the options leave, and the count of the others."""
        dropped = dict(jobs.dropped)
        picked = np.arange(len(jobs))
        if self.max_gpus is not None:
            picked = np.flatnonzero(jobs.gpus <= self.max_gpus)
            dropped[_TOO_LARGE] = len(jobs) - len(picked)
        if self.limit is not None:
            dropped[_PAST] = max(0, len(picked) - self.limit)
            picked = picked[:self.limit]
        if not len(picked):
            raise InputError(f"max_gpus = {self.max_gpus} leaves none of {len(jobs):,} jobs: all "
                             f"have more GPUs, at least {jobs.gpus.min()}")
        if (most := int(jobs.gpus[picked].max())) > _MOST_GPUS:
            raise InputError(f"a job asks for {most:,} GPUs, and iterations are counted of jobs "
                             f"with {_MOST_GPUS:,} at most; give max_gpus to drop such jobs")
        return picked, dropped

    def _models(
        self, jobs: ClusterJobs, picked: NDArray[np.int64], seed: int
    ) -> tuple[list[ParallelModel], NDArray[np.int64], NDArray[np.float64]]:
        """Return the models, which of them each job trains, and for how many iterations."""
        group, gpus = jobs.group[picked], jobs.gpus[picked]
        # By group, so that it does not matter which other jobs there are.
        draws = stream(seed, "trace-models").random(int(group.max()) + 1)[group]
        models: list[ParallelModel] = []
        which = np.zeros(len(picked), dtype=np.int64)
        for count in np.unique(gpus).tolist():
            choice = models_for(count)
            here = gpus == count
            which[here] = len(models) + (draws[here] * len(choice)).astype(np.int64)
            models += choice
        seconds = np.full(len(models), np.nan)
        of_model = self._seconds()
        for place in np.unique(which).tolist():
            seconds[place] = of_model(models[place])
        iterations = np.rint(jobs.duration_s[picked] / seconds[which])
        return models, which, np.clip(iterations, 1, _MOST_ITERATIONS)

    def _seconds(self) -> Callable[[ParallelModel], float]:
        """Return a function of a model: alpha~_min, in seconds."""
        # Here, for they load the compiler, which nobody needs who reads other traces.
        from netsim.models.mapping import Mapper
        from netsim.models.servers import ServerKind

        mapper = Mapper(ServerKind(self.gpus_per_server, parse_rate(self.base_nic),
                                   parse_rate(self.intra)))
        return lambda model: mapper.extremes(model)[1]


def cluster_facts(workload: Workload) -> list[tuple[str, float]]:
    """Return what `check_trace` says of a trace of a cluster: what was dropped, and what is left.

    Parameters
    ----------
    workload : Workload
        Of jobs that train models.
    """
    facts: list[tuple[str, float]] = []
    history = 0 if workload.history is None else len(workload.history)
    if isinstance(workload, TraceWorkload):
        facts += [("jobs in the trace", workload.read)]
        facts += [(f"dropped: {why}", count) for why, count in workload.dropped.items()]
        facts += [(f"kept: {why}", count) for why, count in workload.notes.items()]
    gpus = np.array([job.ranks for job in workload])
    iterations = np.array([job.iterations for job in workload])
    return [
        *facts,
        ("jobs of the history", history),
        ("jobs", len(workload)),
        ("groups", len({job.group for job in workload})),
        ("users", len({job.user for job in workload})),
        ("jobs on one GPU (%)", 100 * float((gpus == 1).mean())),
        *_spread("GPUs", gpus),
        *_spread("iterations", iterations),
        ("first arrival (s)", workload.jobs[0].arrival_s),
        ("last arrival (s)", workload.jobs[-1].arrival_s),
    ]


def _spread(label: str, values: NDArray[Any]) -> list[tuple[str, float]]:
    which: dict[str, Callable[[NDArray[Any]], Any]] = {
        "least": np.min, "median": np.median, "most": np.max}
    return [(f"{label} per job, {name}", float(of(values))) for name, of in which.items()]
