"""Formats of GPU clusters' traces that can be read as one table of jobs, and the list of all.

Each format has two readers: one of its jobs, as columns, and one that makes training jobs of them.
A format that can be read as one table is described by a `JobTable`, which both use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from netsim.base.arrays import Bools, Ints
from netsim.base.brief import brief
from netsim.base.plugins import Registry
from netsim.base.reading import NumberRange, Problem, TraceProblemsError
from netsim.traces.cluster.construction import ClusterConstruction, TraceWorkload
from netsim.traces.cluster.jobs import (
    FAILED,
    NO_GPU,
    NO_SUBMIT,
    NO_TIME,
    UNFINISHED,
    ClusterJobs,
    Column,
    JobTable,
    Parsed,
    gpus_of,
    same_cells,
)
from netsim.traces.cluster.pai import pai_jobs, read_pai
from netsim.traces.cluster.philly import philly_rows
from netsim.traces.cluster.tables import COUNT, SECONDS, Chunk, read_table, read_words

_WHOLE = COUNT._replace(whole=True)

# --- Helios: SenseTime's clusters (Hu et al., SC '21) --------------------------------------

#: What both of the next two formats have: dates, and the states of Slurm.
_TIMES = {use: Column(f"{use}_time") for use in ("submit", "start", "end")}
_FAILED = ("CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL")

#: The duration is without the time in the queue. Jobs have no names.
HELIOS = JobTable(
    columns=("user", "vc", "gpu_num", "cpu_num", "node_num", "state", "submit_time", "start_time",
             "end_time", "duration"),
    parsed={**_TIMES, "duration": Column("duration", SECONDS, blank=True),
            "gpus": Column("gpu_num", _WHOLE)},
    state="state", succeeded=("COMPLETED",), failed=_FAILED,
    group=same_cells("user", "vc", "gpu_num", "cpu_num", "node_num"), user="user")


def helios_jobs(path: str | Path, *, failed: bool = False) -> ClusterJobs:
    """Read the jobs of a ``cluster_log.csv`` as columns; see `read_helios`."""
    return HELIOS.read(path, failed=failed)


def read_helios(path: str | Path, *, seed: int = 0, failed: bool = False, **construction: Any
               ) -> TraceWorkload:
    """Read a ``cluster_log.csv`` of SenseTime's Helios clusters as jobs that train models.

    Times are dates such as ``2020-06-09 18:41:01`` or ``2020-06-09T18:41:01+08:00``, in UTC unless
    they have an offset from it; blank cells are missing times. The duration is in seconds.

    Parameters
    ----------
    path : path-like
        The file.
    seed : int
        Seed of the workload, also used to draw the models of groups.
    failed : bool
        Whether to keep jobs that were ``CANCELLED``, ``FAILED``, ``TIMEOUT`` or ``NODE_FAIL``,
        which occupied their GPUs while they ran.
    **construction
        The fields of `ClusterConstruction`.
    """
    return ClusterConstruction(**construction).of_file(helios_jobs(path, failed=failed), path, seed)


# --- Philly: clusters of Microsoft (Jeon et al., ATC '19) ----------------------------------

PHILLY = JobTable(
    rows=philly_rows,
    parsed={**{name: Column(name) for name in ("submit", "start", "end")},
            "gpus": Column("gpus", NumberRange(0, 1e9))},
    state="status", succeeded=("Pass",), failed=("Killed", "Failed"),
    also={"no attempt": lambda rows: rows.are("attempts", "0")},
    drops=(NO_SUBMIT, "no attempt", UNFINISHED, FAILED, NO_GPU, NO_TIME),
    group=same_cells("user", "vc", "gpus"), user="user")


def philly_jobs(path: str | Path, *, failed: bool = False) -> ClusterJobs:
    """Read the jobs of a ``cluster_job_log`` as columns; see `read_philly`."""
    return PHILLY.read(path, failed=failed)


def read_philly(path: str | Path, *, seed: int = 0, failed: bool = False, **construction: Any
               ) -> TraceWorkload:
    """Read a ``cluster_job_log`` (JSON) of Microsoft's Philly clusters as jobs that train models.

    The file is one JSON array; an entry has ``status``, ``vc``, ``user``, ``submitted_time`` and
    ``attempts``, a list of ``start_time``, ``end_time`` and ``detail``, which is a list of
    servers with the names of their ``gpus``. Times have the form ``2017-10-07 01:12:09``, perhaps
    with an offset from UTC such as ``+08:00``, or are null if missing. Those of the trace are in a
    time zone with daylight saving: jobs that run while it ends appear an hour shorter.

    As in the publishers' analysis, a job has the GPUs of its first attempt, and runs from the
    start of its first attempt to the end of its last. The trace does not name recurring jobs, so
    a group is all jobs of a user in a virtual cluster (``vc``) with the same number of GPUs. The
    following jobs are dropped, and counted under the first reason that applies:

    - jobs without a submission time;
    - jobs without attempts;
    - jobs whose first attempt has no start or whose last has no end (as they still ran), or whose
      status is not one of the trace's three;
    - jobs that were ``Killed`` or ``Failed``, unless `failed` is set;
    - jobs without GPUs;
    - jobs with a duration of 0 or less.

    Parameters
    ----------
    path, seed
        As for `read_helios`.
    failed : bool
        Whether to keep jobs that were ``Killed`` or ``Failed``, which occupied their GPUs while
        they ran.
    **construction
        The fields of `ClusterConstruction`.
    """
    return ClusterConstruction(**construction).of_file(philly_jobs(path, failed=failed), path, seed)


# --- Acme: Shanghai AI Lab's clusters (Hu et al., NSDI '24) --------------------------------

#: A job runs from its start to its end: in the published rows of Kalos, ``duration`` has the time
#: in the queue in it, in those of Seren it has not. Jobs have no names.
ACME = JobTable(
    columns=("user", "node_num", "gpu_num", "cpu_num", "type", "state", "submit_time",
             "start_time", "end_time"),
    parsed={**_TIMES, "gpus": Column("gpu_num", _WHOLE)},
    state="state", succeeded=("COMPLETED",), failed=_FAILED,
    group=same_cells("user", "type", "gpu_num", "cpu_num", "node_num"), user="user")


def acme_jobs(path: str | Path, *, failed: bool = False) -> ClusterJobs:
    """Read the jobs of a trace of Acme as columns; see `read_acme`."""
    return ACME.read(path, failed=failed)


def read_acme(path: str | Path, *, seed: int = 0, failed: bool = False, **construction: Any
             ) -> TraceWorkload:
    """Read a ``trace_seren.csv`` or ``trace_kalos.csv`` of Acme as jobs that train models.

    Times are dates such as ``2020-06-09 18:41:01`` or ``2020-06-09T18:41:01+08:00``, in UTC unless
    they have an offset from it; blank cells are missing times.

    Parameters
    ----------
    path, seed, failed
        As for `read_helios`.
    **construction
        The fields of `ClusterConstruction`.
    """
    return ClusterConstruction(**construction).of_file(acme_jobs(path, failed=failed), path, seed)


# --- the Standard Workload Format of the Parallel Workloads Archive (Feitelson) -------------

_SWF = ("job", "submit", "wait", "run_time", "allocated", "cpu_time", "memory", "requested",
        "requested_time", "requested_memory", "status", "user", "group", "executable", "queue",
        "partition", "preceding", "think_time")


def _processors(parsed: Parsed) -> tuple[NDArray[np.generic], None]:
    """Count the processors that jobs requested, or, if that is unknown, those that they got."""
    asked, got = parsed["requested"], parsed["allocated"]
    return np.nan_to_num(np.where(np.isnan(asked), got, asked)), None


#: A job that was checkpointed has a line for itself, and one for each of its parts, whose states
#: are 2, 3 and 4; these lines are dropped. The state of all jobs of some files is unknown.
SWF = JobTable(
    rows=lambda path: read_words(path, _SWF, ";", "-1"),
    parsed={"submit": Column("submit", SECONDS, blank=True),
            "duration": Column("run_time", SECONDS, blank=True),
            "requested": Column("requested", _WHOLE, blank=True),
            "allocated": Column("allocated", _WHOLE, blank=True)},
    gpus=_processors,
    state="status", succeeded=("1", ""), failed=("0", "5"),
    group=same_cells("user", "group", "executable", "requested"), user="user")


def swf_jobs(path: str | Path, *, failed: bool = False) -> ClusterJobs:
    """Read the jobs of a file in the Standard Workload Format as columns; see `read_swf`."""
    return SWF.read(path, failed=failed)


def read_swf(path: str | Path, *, seed: int = 0, failed: bool = False, **construction: Any
             ) -> TraceWorkload:
    """Read a trace in the Standard Workload Format (``.swf``) as jobs that train models.

    A line has 18 numbers, of which -1 is unknown; comments begin with ``;``. Each processor that a
    job requested becomes a GPU, or, if that is unknown, each one that it got. Jobs of a group have
    the same user, group, executable and number of requested processors.

    Parameters
    ----------
    path, seed
        As for `read_helios`.
    failed : bool
        Whether to keep jobs that failed or were cancelled (status 0 or 5), which occupied their
        processors while they ran.
    **construction
        The fields of `ClusterConstruction`.
    """
    return ClusterConstruction(**construction).of_file(swf_jobs(path, failed=failed), path, seed)


# --- samples of Alibaba PAI's cluster, made for its simulator ------------------------------
def _whole_gpus(parsed: Parsed) -> tuple[NDArray[np.generic], Bools]:
    """Round up instances times GPUs; a blank number of instances is one, as in the simulator."""
    instances = parsed["instances"]
    return gpus_of(np.where(np.isnan(instances), 1.0, instances) * parsed["gpus"])


def _tag_or_request(rows: Chunk, parsed: Parsed) -> Iterable[Hashable]:
    """Name groups by the optional column; where it is blank, by user and request."""
    request = same_cells("user", "num_inst", "num_gpu", "gpu_type")(rows, parsed)
    if not rows.has("group"):
        return request
    return (tag or other for tag, other in zip(rows.cells["group"], request, strict=True))


#: GPUs, perhaps a fraction of one, are those of an instance.
PAI_SAMPLE = JobTable(
    columns=("num_inst", "submit_time", "num_gpu", "gpu_type", "duration", "user"),
    optional=("group",),  # which pai_job_duration_estimate_100K.csv has
    parsed={"submit": Column("submit_time", SECONDS, blank=True),
            "duration": Column("duration", SECONDS, blank=True),
            "instances": Column("num_inst", COUNT, blank=True),
            "gpus": Column("num_gpu", COUNT, blank=True)},
    gpus=_whole_gpus, drops=(NO_SUBMIT, UNFINISHED, NO_GPU, NO_TIME),
    group=_tag_or_request, user="user")


def pai_sample_jobs(path: str | Path) -> ClusterJobs:
    """Read a sample of Alibaba PAI's jobs as columns; see `read_pai_sample`."""
    return PAI_SAMPLE.read(path)


def read_pai_sample(path: str | Path, *, seed: int = 0, **construction: Any) -> TraceWorkload:
    """Read a sample of Alibaba PAI's jobs, as its simulator uses (CSV), as jobs that train models.

    Times are numbers of seconds, of at least 0; blank cells are missing times.

    Parameters
    ----------
    path : path-like
        The file, such as ``pai_job_no_estimate_100K.csv``.
    seed
        As for `read_helios`.
    **construction
        The fields of `ClusterConstruction`.
    """
    return ClusterConstruction(**construction).of_file(pai_sample_jobs(path), path, seed)


# --- Alibaba's cluster of 2023 (Weng et al., ATC '23) --------------------------------------

_ASKED = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos")

#: A job is a pod: submitted when it is created, it runs from when it is scheduled until it is
#: deleted. One that requests a part of a GPU, in thousandths, gets a whole one.
GPU_V2023 = JobTable(
    columns=(*_ASKED, "pod_phase", "creation_time", "deletion_time", "scheduled_time"),
    parsed={"submit": Column("creation_time", SECONDS, blank=True),
            "end": Column("deletion_time", SECONDS, blank=True),
            "start": Column("scheduled_time", SECONDS, blank=True),
            "gpus": Column("num_gpu", _WHOLE),
            "milli": Column("gpu_milli", NumberRange(0, 1e9), blank=True)},
    gpus=lambda parsed: (parsed["gpus"], (parsed["gpus"] == 1) & (parsed["milli"] < 1000)),
    state="pod_phase", succeeded=("Running", "Succeeded"), failed=("Failed",),
    group=same_cells(*_ASKED))


def gpu_v2023_jobs(path: str | Path, *, failed: bool = False) -> ClusterJobs:
    """Read the pods of an ``openb_pod_list_*.csv`` as columns; see `read_gpu_v2023`."""
    return GPU_V2023.read(path, failed=failed)


def read_gpu_v2023(path: str | Path, *, seed: int = 0, failed: bool = False, **construction: Any
                  ) -> TraceWorkload:
    """Read an ``openb_pod_list_*.csv`` of Alibaba's GPU cluster of 2023 as jobs that train models.

    Times are numbers of seconds, of at least 0; blank cells are missing times.

    Parameters
    ----------
    path, seed
        As for `read_helios`.
    failed : bool
        Whether to keep pods that ``Failed``, which occupied their GPUs while they ran.
    **construction
        The fields of `ClusterConstruction`.
    """
    build = ClusterConstruction(**construction)
    return build.of_file(gpu_v2023_jobs(path, failed=failed), path, seed)


@dataclass(frozen=True, slots=True, eq=False)
class GpuNodes:
    """The servers of a cluster."""

    name: tuple[str, ...]
    model: tuple[str, ...]  #: of the GPUs; ``""`` for servers without GPUs
    gpus: Ints  #: number on each server

    __repr__ = brief

    def __len__(self) -> int:
        return len(self.name)

    def sizes(self) -> dict[int, int]:
        """Count the servers by number of GPUs."""
        return dict(sorted(Counter(self.gpus.tolist()).items()))


def gpu_v2023_nodes(path: str | Path) -> GpuNodes:
    """Read the servers of an ``openb_node_list_*.csv``, with and without GPUs.

    The header has ``sn``, ``gpu`` and ``model``, in any order; other columns are ignored.
    """
    names: list[str] = []
    models: list[str] = []
    gpus: list[float] = []
    for rows in read_table(path, ("sn", "gpu", "model")):
        names += rows.cells["sn"]
        models += rows.cells["model"]
        gpus += rows.numbers("gpu", _WHOLE).tolist()
    if not names:
        raise TraceProblemsError([Problem(None, "holds no servers")], path)
    return GpuNodes(tuple(names), tuple(models), np.array(gpus, dtype=np.int64))


# --- the CSV of Tiresias, without its iterations -------------------------------------------

TIRESIAS = JobTable(
    columns=("num_gpu", "submit_time", "model_name", "duration"),
    parsed={"gpus": Column("num_gpu", _WHOLE), "duration": Column("duration", SECONDS),
            "submit": Column("submit_time", SECONDS)},
    drops=(NO_GPU, NO_TIME),
    group=lambda rows, parsed: zip(rows.cells["model_name"], parsed["gpus"].tolist(), strict=True))


def tiresias_jobs(path: str | Path) -> ClusterJobs:
    """Read the jobs of Tiresias' ``60_job.csv`` as columns; see `read_tiresias_cluster`."""
    return TIRESIAS.read(path)


def read_tiresias_cluster(path: str | Path, *, seed: int = 0, **construction: Any) -> TraceWorkload:
    """Read the Tiresias trace (CSV) as jobs that train models.

    Times are numbers of seconds, of at least 0.

    Parameters
    ----------
    path, seed
        As for `read_helios`.
    **construction
        The fields of `ClusterConstruction`.
    """
    return ClusterConstruction(**construction).of_file(tiresias_jobs(path), path, seed)


# --- all formats ---------------------------------------------------------------------------
class GpuTrace(NamedTuple):
    """A format of traces of GPU clusters."""

    jobs: Callable[..., ClusterJobs]  #: reads the jobs of a file, ``jobs(path, **options)``
    read: Callable[..., TraceWorkload]  #: makes them jobs that train models; see `FORMATS`
    table: JobTable | None = None  #: None if the format is not one table with a header
    suffix: str = ""  #: of its files, if it is of this format alone


#: The formats of traces of GPU clusters, by name. Registries and messages are made of this list.
GPU_TRACES: dict[str, GpuTrace] = {
    "pai": GpuTrace(pai_jobs, read_pai),
    "pai-100k": GpuTrace(pai_sample_jobs, read_pai_sample, PAI_SAMPLE),
    "philly": GpuTrace(philly_jobs, read_philly),
    "helios": GpuTrace(helios_jobs, read_helios, HELIOS),
    "acme": GpuTrace(acme_jobs, read_acme, ACME),
    "gpu-v2023": GpuTrace(gpu_v2023_jobs, read_gpu_v2023, GPU_V2023),
    "swf": GpuTrace(swf_jobs, read_swf, suffix=".swf"),
    "tiresias-cluster": GpuTrace(tiresias_jobs, read_tiresias_cluster, TIRESIAS),
}

#: The readers of jobs, for workloads that take only arrivals, durations and GPUs from a trace.
CLUSTER_TRACES = Registry(
    "trace of a GPU cluster", {name: trace.jobs for name, trace in GPU_TRACES.items()},
    noun="trace", accepts=lambda made: isinstance(made, ClusterJobs),
    refusal="does not read the trace of a GPU cluster: it must return a "
            "netsim.traces.cluster.ClusterJobs")
