"""Formats of GPU clusters' traces that are one table of jobs, and the registry of all formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netsim.base.brief import brief
from netsim.base.plugins import Registry
from netsim.traces.cluster.construction import workload_reader
from netsim.traces.cluster.jobs import (
    NO_GPU,
    NO_SUBMIT,
    NO_TIME,
    UNFINISHED,
    ClusterJobs,
    Column,
    JobTable,
    Masks,
    Parsed,
    gpus_of,
    same_cells,
)
from netsim.traces.cluster.tables import COUNT, SECONDS, Chunk, read_table
from netsim.traces.files import NumberRange, Problem, TraceProblemsError

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
    """Read the jobs of a ``cluster_log.csv``, and clean them.

    Parameters
    ----------
    path : path-like
        The file.
    failed : bool
        Whether to keep jobs that were ``CANCELLED``, ``FAILED``, ``TIMEOUT`` or ``NODE_FAIL``,
        which occupied their GPUs while they ran.
    """
    return HELIOS.read(path, failed=failed)


read_helios = workload_reader(
    "read_helios", helios_jobs,
    "Read a ``cluster_log.csv`` of SenseTime's Helios clusters as jobs that train models.")


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
    """Read the jobs of a ``trace_seren.csv`` or ``trace_kalos.csv``, and clean them.

    Parameters
    ----------
    path : path-like
        The file.
    failed : bool
        Whether to keep jobs that were ``CANCELLED``, ``FAILED``, ``TIMEOUT`` or ``NODE_FAIL``,
        which occupied their GPUs while they ran.
    """
    return ACME.read(path, failed=failed)


read_acme = workload_reader(
    "read_acme", acme_jobs,
    "Read a ``trace_seren.csv`` or ``trace_kalos.csv`` of Acme as jobs that train models.")


# --- samples of Alibaba PAI's cluster, made for its simulator ------------------------------
def _whole_gpus(parsed: Parsed) -> tuple[NDArray[np.generic], Masks]:
    """Round up instances times GPUs; a blank number of instances is one, as in the simulator."""
    instances = parsed["instances"]
    return gpus_of(np.where(np.isnan(instances), 1.0, instances) * parsed["gpus"])


def _tag_or_request(rows: Chunk, parsed: Parsed) -> Iterable[Hashable]:
    """Name groups by the optional column; where it is blank, by user and request."""
    request = same_cells("user", "num_inst", "num_gpu", "gpu_type")(rows, parsed)
    if not rows.has("group"):
        return request
    return (tag or other for tag, other in zip(rows.cells["group"], request, strict=True))


#: Times are in seconds. GPUs, perhaps a fraction of one, are those of an instance.
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
    """Read a sample of Alibaba PAI's jobs, and clean them.

    Parameters
    ----------
    path : path-like
        The file, such as ``pai_job_no_estimate_100K.csv``.
    """
    return PAI_SAMPLE.read(path)


read_pai_sample = workload_reader(
    "read_pai_sample", pai_sample_jobs,
    "Read a sample of Alibaba PAI's jobs, as its simulator uses (CSV), as jobs that train models.")


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
    """Read the pods of an ``openb_pod_list_*.csv`` as jobs, and clean them.

    Parameters
    ----------
    path : path-like
        The file.
    failed : bool
        Whether to keep pods that ``Failed``, which occupied their GPUs while they ran.
    """
    return GPU_V2023.read(path, failed=failed)


read_gpu_v2023 = workload_reader(
    "read_gpu_v2023", gpu_v2023_jobs,
    "Read an ``openb_pod_list_*.csv`` of Alibaba's GPU cluster of 2023 as jobs that train models.")


@dataclass(frozen=True, slots=True, eq=False)
class GpuNodes:
    """The servers of a cluster."""

    name: tuple[str, ...]
    model: tuple[str, ...]  #: of the GPUs; ``""`` for servers without GPUs
    gpus: NDArray[np.int64]  #: number on each server

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

#: Times are in seconds.
TIRESIAS = JobTable(
    columns=("num_gpu", "submit_time", "model_name", "duration"),
    parsed={"gpus": Column("num_gpu", _WHOLE), "duration": Column("duration", SECONDS),
            "submit": Column("submit_time", SECONDS)},
    drops=(NO_GPU, NO_TIME),
    group=lambda rows, parsed: zip(rows.cells["model_name"], parsed["gpus"].tolist(), strict=True))


def tiresias_jobs(path: str | Path) -> ClusterJobs:
    """Read the jobs of a trace in the format of Tiresias' ``60_job.csv``, and clean them.

    Parameters
    ----------
    path : path-like
        The file.
    """
    return TIRESIAS.read(path)


read_tiresias_cluster = workload_reader(
    "read_tiresias_cluster", tiresias_jobs,
    "Read the Tiresias trace (CSV) as jobs that train models.")


# --- all formats ---------------------------------------------------------------------------

#: The tables of jobs, by the names of their formats.
TABLES = {"tiresias-cluster": TIRESIAS, "helios": HELIOS, "acme": ACME, "pai-100k": PAI_SAMPLE,
          "gpu-v2023": GPU_V2023}

#: Functions ``read(path, **options)`` that return `ClusterJobs`: arrivals, durations and GPUs.
CLUSTER_TRACES = Registry(
    "trace of a GPU cluster", {
        "pai": "netsim.traces.cluster.pai:pai_jobs",
        "pai-100k": pai_sample_jobs,
        "philly": "netsim.traces.cluster.philly:philly_jobs",
        "helios": helios_jobs,
        "acme": acme_jobs,
        "gpu-v2023": gpu_v2023_jobs,
        "tiresias-cluster": tiresias_jobs,
    },
    noun="trace", accepts=lambda made: isinstance(made, ClusterJobs),
    refusal="does not read the trace of a GPU cluster: it must return a "
            "netsim.traces.cluster.ClusterJobs")
