"""Read traces of GPU clusters, as columns of cleaned jobs or as workloads of training jobs."""

from __future__ import annotations

from netsim.base.lazy import loading
from netsim.traces.cluster.construction import (
    ClusterConstruction,
    TraceWorkload,
    cluster_facts,
)
from netsim.traces.cluster.jobs import ClusterJobs
from netsim.traces.cluster.pai import pai_jobs, read_pai
from netsim.traces.cluster.readers import (
    GpuNodes,
    acme_jobs,
    gpu_v2023_jobs,
    gpu_v2023_nodes,
    helios_jobs,
    pai_sample_jobs,
    philly_jobs,
    read_acme,
    read_gpu_v2023,
    read_helios,
    read_pai_sample,
    read_philly,
    read_swf,
    read_tiresias_cluster,
    swf_jobs,
    tiresias_jobs,
)
from netsim.traces.cluster.recurrent import recurrent, recurrent_jobs

__all__ = ["ClusterConstruction", "ClusterJobs", "GpuNodes", "TraceWorkload", "acme_jobs",
           "cluster_facts", "gpu_v2023_jobs", "gpu_v2023_nodes", "helios_jobs", "pai_jobs",
           "pai_sample_jobs", "philly_jobs", "read_acme", "read_gpu_v2023", "read_helios",
           "read_pai", "read_pai_sample", "read_philly", "read_swf", "read_tiresias_cluster",
           "recurrent", "recurrent_jobs", "swf_jobs", "tiresias_jobs"]

__getattr__ = loading(__name__)
