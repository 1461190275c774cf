"""Make workloads of traces: draw a model for each job, and compute its number of iterations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.errors import InputError, UnknownNameError
from netsim.models import ParallelModel
from netsim.models.catalogue import GPU, MODELS, models_for
from netsim.models.gpus import Gpu, gpu_of
from netsim.models.servers import ServerKind
from netsim.plain import plain_numbers
from netsim.streams import stream
from netsim.traces.cluster.columns import ClusterJobs, draw_single, share_of
from netsim.traces.problems import (
    POSITIVE,
    Problem,
    Rule,
    TraceProblemsError,
    whole_option,
)
from netsim.units import Quantity, parse_rate
from netsim.workload import History, JobSpec, Workload

__all__ = ["ClusterConstruction", "TraceWorkload", "cluster_facts"]

_TOO_LARGE = "more GPUs than max_gpus"
_MOST_ITERATIONS = 10**15
#: Mapping a job of this many replicas takes seconds, and a minute for twice as many.
_MOST_GPUS = 4096
_PAST = "beyond limit"
_UNSAMPLED = "outside of the sample"
_CONFIGURATIONS = ("fewest-stages", "planned", "planned-apart")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TraceWorkload(Workload):
    """A workload made of a trace, with counts of the trace's jobs that were dropped or changed.

    Attributes
    ----------
    read : int
        Number of jobs in the trace.
    dropped : mapping of str to int
        Number of jobs dropped for each reason.
    notes : mapping of str to int
        Number of jobs kept with a change, such as a rounded number of GPUs, for each kind.
    """

    read: int = field(default=0, kw_only=True)
    dropped: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    notes: Mapping[str, int] = field(default_factory=dict, kw_only=True)


@plain_numbers
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConstruction:
    """How jobs of a GPU cluster's trace become jobs that train models (A-SRPT).

    Traces tell the number of GPUs of a job and its duration, but not the model that it trains. Each
    group of jobs gets a model of the catalogue, drawn from those that run on its number of GPUs, so
    that all jobs of a group train the same model; and one of the model's configurations, likewise.
    A job has max(1, duration/alpha~_min) iterations, rounded to the nearest whole number, as jobs
    repeat whole iterations. alpha~_min is the time of an iteration on as few servers as possible,
    mapped by Heavy-Edge. Schedulers estimate its running time as that of its iterations, each
    taking alpha~_min.

    Attributes
    ----------
    limit : int, optional
        Keep only the first `limit` of the remaining jobs.
    train : float
        Share of the jobs, in order of submission and rounded down, that become the workload's
        history, from which predictors learn. The other jobs are those of the workload. 0 for no
        history.
    max_gpus : int, optional
        Drop jobs that request more GPUs. Without it, no job may request more than 4,096.
    sample : int, optional
        Run only this number of consecutive jobs of those after the history, beginning with a
        random one.
    arrival_scale, iteration_scale : float
        Factors by which submission times, and numbers of iterations, are multiplied. The history
        counts iterations likewise.
    single_gpu_share : float, optional
        Share of the jobs that have one GPU, instead of that of the trace. Groups of jobs are set
        to one GPU in random order until it is reached. The jobs of the other groups have more:
        their own number, or that of a random job, drawn for the group.
    base_nic : quantity
        Rate of a server's NIC with which numbers of iterations are computed. They do not depend
        on the network that is simulated.
    intra : quantity
        Rate inside a server, for the same purpose.
    gpus_per_server : int
        GPUs per server, for the same purpose.
    most_iterations : int, optional
        Merge the iterations of jobs that have more than this number, by 2, 4, 8, ...: such an
        iteration has as many times the computation and the bytes. On the fabric, a job then takes
        about as long and is simulated in fewer steps. The number of iterations is rounded. Not for
        workloads with a history, which counts iterations as they are.
    models : sequence of str, optional
        Names of the catalogue's models to draw from; all by default. Models that need more GPUs
        than a job has are left out for it.
    gpu : str, mapping or Gpu
        The kind of GPU on which times of computation are derived, and whose memory stages must
        fit into: a name of `netsim.models.gpus.GPUS`, such as ``"v100"``, or parameters of
        `netsim.models.gpus.Gpu`.
    configurations : {"fewest-stages", "planned", "planned-apart"}
        How a model is trained on a number of GPUs. ``"fewest-stages"``: on as few equal stages as
        memory allows (`netsim.make_model`). ``"planned"``: by one of the plans of
        `netsim.plan_model`, drawn for each group, as in A-SRPT; ``"planned-apart"``: by one of
        those for GPUs apart. Plans are made for `gpu`, `base_nic`, `intra` and `gpus_per_server`.

    Raises
    ------
    InputError
        If an option is out of range.
    """

    limit: int | None = None
    train: float = 0.8
    max_gpus: int | None = None
    sample: int | None = None
    arrival_scale: float = 1.0
    iteration_scale: float = 1.0
    single_gpu_share: float | None = None
    base_nic: Quantity = "10Gbps"
    intra: Quantity = "300GB/s"
    gpus_per_server: int = 8
    most_iterations: int | None = None
    models: Sequence[str] | None = None
    gpu: str | Mapping[str, Any] | Gpu = GPU
    configurations: str = "fewest-stages"

    def __post_init__(self) -> None:
        for name in ("limit", "max_gpus", "sample", "gpus_per_server", "most_iterations"):
            if getattr(self, name) is not None or name == "gpus_per_server":
                whole_option(getattr(self, name), name, 1)
        for name, rule in (("arrival_scale", Rule()), ("iteration_scale", POSITIVE),
                           ("single_gpu_share", Rule(0, 1))):
            value = getattr(self, name)
            if rule.number(value) is None and not (name == "single_gpu_share" and value is None):
                raise InputError(f"{name} must be {rule}, not {value!r}")
        if Rule(0, 1).number(self.train) is None or self.train == 1:
            raise InputError(f"train must be a number from 0 to less than 1, not {self.train!r}")
        if self.train and self.most_iterations is not None:
            raise InputError("most_iterations is for workloads without a history, which counts "
                             f"iterations as they are: set train = 0, not {self.train:g}")
        _check_models(self.models)
        gpu_of(self.gpu)
        if self.configurations not in _CONFIGURATIONS:
            raise UnknownNameError("configurations", self.configurations, _CONFIGURATIONS)
        for name in ("base_nic", "intra"):
            parse_rate(getattr(self, name), name, strict=True)

    def workload(self, jobs: ClusterJobs, name: str, seed: int = 0) -> TraceWorkload:
        """Make the workload of the jobs of a trace.

        Parameters
        ----------
        jobs : ClusterJobs
            The cleaned jobs.
        name : str
            The workload's name.
        seed : int
            Seed of the workload, also used to draw the models of groups.

        Raises
        ------
        InputError
            If no jobs remain, or the history or the workload would be empty.
        """
        picked, dropped = self._select(jobs)
        known = share_of(len(picked), self.train)
        if self.train and not 0 < known < len(picked):
            raise InputError(f"train = {self.train:g} of {len(picked):,} jobs leaves none as "
                             "history, or none to run; 0 is for no history")
        gpus = self._gpus(jobs, picked, seed)
        models, which, iterations, seconds = self._models(jobs, picked, gpus, seed)
        earlier, run = picked[:known], self._sampled(known, len(picked), seed)
        later = picked[run]
        if self.sample is not None:
            dropped[_UNSAMPLED] = len(picked) - known - len(later)
        times = self._times(iterations)
        counts = np.rint(iterations / times)
        history = None if not known else History(
            jobs.group[earlier].astype(np.int64), jobs.user[earlier].astype(np.int64),
            iterations[:known], (counts * times * seconds * gpus)[:known])
        columns = (jobs.submit_s[later] * self.arrival_scale, counts[run], times[run],
                   (counts * times * seconds)[run], jobs.group[later], jobs.user[later],
                   which[run])
        specs = [JobSpec(number, arrival_s, int(count), estimate_s=estimate_s, group=group,
                         user=user, model=_merged(models[place], each), name=models[place].name)
                 for number, (arrival_s, count, each, estimate_s, group, user, place) in enumerate(
                     zip(*(column.tolist() for column in columns), strict=True), run.start)]
        return TraceWorkload(specs, name, seed=seed, history=history, read=jobs.read,
                             dropped=dropped, notes=jobs.notes)

    def of_file(self, jobs: ClusterJobs, path: str | Path, seed: int = 0) -> TraceWorkload:
        """Make the workload of a file's jobs, and name it after the file.

        Raises
        ------
        TraceProblemsError
            If `workload` raises an error; this one names the file.
        """
        try:
            return self.workload(jobs, Path(path).stem, seed)
        except InputError as error:
            raise TraceProblemsError([Problem(None, str(error))], path) from error

    def _select(self, jobs: ClusterJobs) -> tuple[NDArray[np.int64], dict[str, int]]:
        """Return the indices of the jobs that the options keep, and counts of those dropped."""
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
            raise InputError(f"a job asks for {most:,} GPUs, and iterations can be computed for "
                             f"at most {_MOST_GPUS:,}; give max_gpus to drop such jobs")
        return picked, dropped

    def _sampled(self, known: int, count: int, seed: int) -> slice:
        """Return which of the jobs run: all after the history, or consecutive ones of them."""
        if self.sample is None:
            return slice(known, count)
        if self.sample > count - known:
            raise InputError(f"sample = {self.sample:,} jobs are more than the {count - known:,} "
                             "that are not history")
        begin = known + int(stream(seed, "trace-sample").integers(count - known - self.sample + 1))
        return slice(begin, begin + self.sample)

    def _gpus(self, jobs: ClusterJobs, picked: NDArray[np.int64], seed: int) -> NDArray[np.int32]:
        """Return the GPUs of each job, with the share of jobs on one GPU that is asked for."""
        gpus, group = jobs.gpus[picked], jobs.group[picked]
        if self.single_gpu_share is None:
            return gpus
        rng = stream(seed, "trace-gpus")
        sizes = np.bincount(group)
        single = draw_single(sizes, self.single_gpu_share, rng)[group]
        several = gpus[gpus > 1]
        if not len(several) and not single.all():
            raise InputError(f"single_gpu_share = {self.single_gpu_share:g}: no job of the trace "
                             "has several GPUs, so that none can get as many")
        drawn = rng.choice(several, len(sizes)) if len(several) else np.ones_like(sizes)
        return np.where(single, 1, np.where(gpus > 1, gpus, drawn[group])).astype(np.int32)

    def _models(
        self, jobs: ClusterJobs, picked: NDArray[np.int64], gpus: NDArray[np.int32], seed: int
    ) -> tuple[list[ParallelModel], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Draw models; return them, and each job's index, iterations and seconds of one."""
        group = jobs.group[picked]
        # Drawn by group, so that a job's model does not depend on which other jobs are kept.
        draws = stream(seed, "trace-models").random(int(group.max()) + 1)[group]
        models: list[ParallelModel] = []
        which = np.zeros(len(picked), dtype=np.int64)
        for count in np.unique(gpus).tolist():
            choice = self._models_for(count)
            here = gpus == count
            sizes = np.array([len(each) for each in choice])
            at = draws[here] * len(choice)  # its whole part says which model, the rest how trained
            model = at.astype(np.int64)
            which[here] = (len(models) + (np.cumsum(sizes) - sizes)[model]
                           + ((at - model) * sizes[model]).astype(np.int64))
            models += chain.from_iterable(choice)
        seconds = np.full(len(models), np.nan)
        of_model = self._seconds()
        for place in np.unique(which).tolist():
            seconds[place] = of_model(models[place])
        iterations = np.rint(self.iteration_scale * jobs.duration_s[picked] / seconds[which])
        return models, which, np.clip(iterations, 1, _MOST_ITERATIONS), seconds[which]

    def _models_for(self, gpus: int) -> list[tuple[ParallelModel, ...]]:
        """Return the configurations of each model that a job on this number of GPUs may get."""
        names = tuple(MODELS) if self.models is None else self.models
        known: dict[str, tuple[ParallelModel, ...]]
        if self.configurations == "fewest-stages":
            known = {model.name: (model,) for model in models_for(gpus, self.gpu)}
        else:
            known = {name: plans for name in names if (plans := self._planned(name, gpus))}
        if found := [known[name] for name in names if name in known]:
            return found
        raise InputError(f"models: none of {', '.join(names)} can be trained on {gpus} "
                         f"GPU{'s' * (gpus > 1)}, the number that a job asks for")

    def _planned(self, name: str, gpus: int) -> tuple[ParallelModel, ...]:
        """Return the planned configurations of a model; empty if there are none."""
        from netsim.models.planner import plan_model  # here for the same reason as in `_seconds`

        return tuple(plan.model for plan in plan_model(
            name, gpus, gpu=self.gpu, server=self._server(),
            apart=self.configurations == "planned-apart"))

    def _times(self, iterations: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how many iterations of each job are merged into one."""
        if self.most_iterations is None:
            return np.ones(len(iterations))
        # Powers of two, so that floats and the mapping of a model stay the same, and few models
        # are made.
        return np.exp2(np.ceil(np.log2(np.maximum(iterations / self.most_iterations, 1.0))))

    def _seconds(self) -> Callable[[ParallelModel], float]:
        """Return a function that computes alpha~_min of a model, in seconds."""
        # Imported here because it loads the compiler, which other traces do not need.
        from netsim.models.mapping import Mapper

        mapper = Mapper(self._server())
        return lambda model: mapper.extremes(model)[1]

    def _server(self) -> ServerKind:
        return ServerKind(self.gpus_per_server, parse_rate(self.base_nic), parse_rate(self.intra))


def _check_models(names: Sequence[str] | None) -> None:
    if names is None:
        return
    if isinstance(names, str) or not names:
        raise InputError(f"models must be a list of names, not {names!r}")
    for name in names:
        if name not in MODELS:
            raise UnknownNameError("model", name, MODELS)


@lru_cache(maxsize=4096)
def _merged(model: ParallelModel, times: float) -> ParallelModel:
    """Return a model that does in one iteration what another one does in several."""
    if times == 1:
        return model
    names = ("forward_s", "backward_s", "in_bytes", "out_bytes", "param_bytes", "slice_bytes",
             "expert_bytes")
    return replace(model, stages=tuple(
        replace(stage, **{name: times * getattr(stage, name) for name in names})
        for stage in model.stages))


def cluster_facts(workload: Workload) -> list[tuple[str, float]]:
    """List the facts that `check_trace` reports for a cluster's trace, as (label, value).

    Parameters
    ----------
    workload : Workload
        A workload of jobs that train models.
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
