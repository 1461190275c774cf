"""Workloads of training jobs, made of the jobs of a GPU cluster's trace.

A workload needs a model for each job, which is drawn, and its number of iterations, which is
computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Floats, Ints
from netsim.base.files import stem_of
from netsim.base.reading import as_problems
from netsim.base.streams import stream
from netsim.base.units import Quantity, parse_rate
from netsim.base.values import (
    MOST_ID,
    as_choice,
    as_list,
    as_number,
    as_whole,
    convert,
    known_names,
    optional,
    refused,
)
from netsim.errors import InputError
from netsim.models import ParallelModel
from netsim.models.catalogue import GPU, MODELS, models_for
from netsim.models.gpus import Gpu, gpu_of
from netsim.models.servers import ServerKind
from netsim.traces.cluster.jobs import ClusterJobs
from netsim.traces.files import as_factor
from netsim.workload import History, JobSpec, Workload

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

    The counts are as in `ClusterJobs`, with the jobs that options of the construction drop.
    """

    read: int = field(default=0, kw_only=True)
    dropped: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    notes: Mapping[str, int] = field(default_factory=dict, kw_only=True)


@known_names
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
    """

    limit: int | None = None  #: keep only the first of the remaining jobs
    #: Share of the jobs, in order of submission and rounded down, that become the history, from
    #: which predictors learn; the others run.
    train: float = 0.8
    max_gpus: int | None = None  #: drop larger jobs; without it, one of over 4,096 is refused
    #: After the history, run only this number of consecutive jobs, from a random one on.
    sample: int | None = None
    arrival_scale: float = 1.0  #: factor by which times of submission are multiplied
    iteration_scale: float = 1.0  #: factor on numbers of iterations, also of the history
    #: Share of the jobs that have one GPU, instead of that of the trace. Groups of jobs are set to
    #: one GPU in random order until it is reached. The jobs of the other groups have more: their
    #: own number, or that of a random job, drawn for the group.
    single_gpu_share: float | None = None
    #: Rate of a NIC with which numbers of iterations are computed, whichever network is simulated.
    base_nic: Quantity = "10Gbps"
    intra: Quantity = "300GB/s"  #: rate inside a server with which they are computed
    gpus_per_server: int = 8  #: GPUs of a server with which they are computed
    #: Merge the iterations of jobs that have more, by 2, 4, 8, ...: such an iteration has as many
    #: times the computation and the bytes, so that a job takes about as long on the fabric in fewer
    #: steps. Not for workloads with a history, which counts iterations as they are.
    most_iterations: int | None = None
    #: Names in the catalogue; those that need more GPUs than a job has are left out for it.
    models: Sequence[str] | None = None
    #: The kind of GPU that computes, and whose memory stages must fit into.
    gpu: str | Mapping[str, Any] | Gpu = GPU
    #: How models are cut: ``"fewest-stages"`` is as few equal stages as memory allows
    #: (`netsim.make_model`), ``"planned"`` one of the plans of `netsim.plan_model`, drawn for each
    #: group, as in A-SRPT, and ``"planned-apart"`` one of those for GPUs apart.
    configurations: str = "fewest-stages"

    def __post_init__(self) -> None:
        count, rate = partial(as_whole, least=1, most=MOST_ID), partial(parse_rate, strict=True)
        convert(self, limit=optional(count), max_gpus=optional(count), sample=optional(count),
                gpus_per_server=count, most_iterations=optional(count), arrival_scale=as_factor,
                iteration_scale=partial(as_number, least=1e-18, most=1e18),
                single_gpu_share=optional(partial(as_number, least=0, most=1)),
                train=partial(as_number, least=0, below=1), models=optional(_models),
                gpu=lambda gpu, _: gpu_of(gpu), base_nic=rate, intra=rate,
                configurations=partial(as_choice, choices=_CONFIGURATIONS))
        if self.train and self.most_iterations is not None:
            raise InputError("most_iterations is for workloads without a history, which counts "
                             f"iterations as they are: set train = 0, not {self.train:g}",
                             "most_iterations")

    def workload(self, jobs: ClusterJobs, name: str, seed: int = 0) -> TraceWorkload:
        """Make the workload of a trace's cleaned jobs; `seed` also draws the models of groups."""
        (picked, dropped), seed = self._select(jobs), as_whole(seed, "seed")
        known = share_of(len(picked), self.train)
        if self.train and not 0 < known < len(picked):
            raise InputError(f"train = {self.train:g} of {len(picked):,} jobs leaves none as "
                             "history, or none to run; 0 is for no history", "train")
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
        """Make the workload of a file's jobs, named after the file; errors name the file, too."""
        with as_problems(path):
            return self.workload(jobs, stem_of(path), seed)

    def _select(self, jobs: ClusterJobs) -> tuple[Ints, dict[str, int]]:
        """Find the jobs that the options keep, by index, and count those dropped."""
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
                             f"have more GPUs, at least {jobs.gpus.min()}", "max_gpus")
        if (most := int(jobs.gpus[picked].max())) > _MOST_GPUS:
            raise InputError(f"a job asks for {most:,} GPUs, and iterations can be computed for "
                             f"at most {_MOST_GPUS:,}; give max_gpus to drop such jobs")
        return picked, dropped

    def _sampled(self, known: int, count: int, seed: int) -> slice:
        """The jobs that run: all after the history, or a sample of consecutive ones."""
        if self.sample is None:
            return slice(known, count)
        if self.sample > count - known:
            raise InputError(f"sample = {self.sample:,} jobs are more than the {count - known:,} "
                             "that are not history", "sample")
        begin = known + int(stream(seed, "trace-sample").integers(count - known - self.sample + 1))
        return slice(begin, begin + self.sample)

    def _gpus(self, jobs: ClusterJobs, picked: Ints, seed: int) -> NDArray[np.int32]:
        """The GPUs of each job, with `single_gpu_share` of the jobs on one GPU if that is given."""
        gpus, group = jobs.gpus[picked], jobs.group[picked]
        if self.single_gpu_share is None:
            return gpus
        rng = stream(seed, "trace-gpus")
        sizes = np.bincount(group)
        single = draw_single(sizes, self.single_gpu_share, rng)[group]
        several = gpus[gpus > 1]
        if not len(several) and not single.all():
            raise InputError(f"single_gpu_share = {self.single_gpu_share:g}: no job of the trace "
                             "has several GPUs, so that none can get as many",
                             "single_gpu_share")
        drawn = rng.choice(several, len(sizes)) if len(several) else np.ones_like(sizes)
        return np.where(single, 1, np.where(gpus > 1, gpus, drawn[group])).astype(np.int32)

    def _models(self, jobs: ClusterJobs, picked: Ints, gpus: NDArray[np.int32], seed: int
                ) -> tuple[list[ParallelModel], Ints, Floats, Floats]:
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
            at = draws[here] * len(choice)  # whole part: which model; rest: how it is trained
            model = at.astype(np.int64)
            which[here] = (len(models) + (np.cumsum(sizes) - sizes)[model]
                           + ((at - model) * sizes[model]).astype(np.int64))
            models += chain.from_iterable(choice)
        # Imported here because it loads the compiler, which other traces do not need.
        from netsim.models.mapping import Mapper

        mapper, seconds = Mapper(self._server()), np.full(len(models), np.nan)
        for place in np.unique(which).tolist():
            seconds[place] = mapper.extremes(models[place])[1]  # alpha~_min
        iterations = np.rint(self.iteration_scale * jobs.duration_s[picked] / seconds[which])
        return models, which, np.clip(iterations, 1, _MOST_ITERATIONS), seconds[which]

    def _models_for(self, gpus: int) -> list[tuple[ParallelModel, ...]]:
        """List the configurations of each model that a job on this number of GPUs may get."""
        names = tuple(MODELS) if self.models is None else self.models
        known: dict[str, tuple[ParallelModel, ...]]
        if self.configurations == "fewest-stages":
            known = {model.name: (model,) for model in models_for(gpus, self.gpu)}
        else:
            known = {name: plans for name in names if (plans := self._planned(name, gpus))}
        if found := [known[name] for name in names if name in known]:
            return found
        raise InputError(f"models: none of {', '.join(names)} can be trained on {gpus} "
                         f"GPU{'s' * (gpus > 1)}, the number that a job asks for", "models")

    def _planned(self, name: str, gpus: int) -> tuple[ParallelModel, ...]:
        """List the planned configurations of a model; empty if there are none."""
        from netsim.models.planner import plan_model  # here for the same reason as in `_models`

        return tuple(plan.model for plan in plan_model(
            name, gpus, gpu=self.gpu, server=self._server(),
            apart=self.configurations == "planned-apart"))

    def _times(self, iterations: Floats) -> Floats:
        """The number of iterations of each job that are merged into one."""
        if self.most_iterations is None:
            return np.ones(len(iterations))
        # Powers of two, so that floats and the mapping of a model stay the same, and few models
        # are made.
        return np.exp2(np.ceil(np.log2(np.maximum(iterations / self.most_iterations, 1.0))))

    def _server(self) -> ServerKind:
        return ServerKind(self.gpus_per_server, parse_rate(self.base_nic), parse_rate(self.intra))


def _models(given: Any, what: str) -> tuple[str, ...]:
    """Convert a list of models of the catalogue."""
    names = as_list(given, what, str, "names")
    if not names:
        raise refused(what, "a list of names", given)
    return tuple(as_choice(name, "model", MODELS) for name in names)


@lru_cache(maxsize=4096)
def _merged(model: ParallelModel, times: float) -> ParallelModel:
    """Make a model that does in one iteration what another one does in several."""
    if times == 1:
        return model
    names = ("forward_s", "backward_s", "in_bytes", "out_bytes", "param_bytes", "slice_bytes",
             "expert_bytes")
    return replace(model, stages=tuple(
        replace(stage, **{name: times * getattr(stage, name) for name in names})
        for stage in model.stages))


def share_of(count: int, share: float) -> int:
    """Compute a share of a count, rounded down but for rounding errors; 0.29 of 100 is 29."""
    return math.floor(share * count + 1e-9)


def draw_single(sizes: Ints, share: float, rng: np.random.Generator) -> Bools:
    """Draw the groups whose jobs have one GPU: in random order, as long as `share` allows."""
    single = np.zeros(len(sizes), dtype=bool)
    left = round(share * int(sizes.sum()))
    for group in rng.permutation(len(sizes)).tolist():
        if sizes[group] <= left:
            single[group] = True
            left -= int(sizes[group])
    return single


# --- facts ---------------------------------------------------------------------------------
def cluster_facts(workload: Workload) -> list[tuple[str, float]]:
    """List the facts that `check_trace` reports for a cluster's trace, as (label, value)."""
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
