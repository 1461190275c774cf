"""Readers of traces of GPU clusters as columns, by the names of the formats."""

from __future__ import annotations

from netsim.base.plugins import Registry
from netsim.traces.cluster.construction import ClusterJobs

#: Functions ``read(path, **options)`` that return `ClusterJobs`: arrivals, durations and GPUs.
CLUSTER_TRACES = Registry(
    "trace of a GPU cluster", {
        "pai": "netsim.traces.cluster.pai:pai_jobs",
        "pai-100k": "netsim.traces.cluster.pai:pai_sample_jobs",
        "philly": "netsim.traces.cluster.philly:philly_jobs",
        "helios": "netsim.traces.cluster.helios:helios_jobs",
        "acme": "netsim.traces.cluster.helios:acme_jobs",
        "gpu-v2023": "netsim.traces.cluster.gpu2023:gpu_v2023_jobs",
        "tiresias-cluster": "netsim.traces.cluster.tiresias_jobs:tiresias_jobs",
    },
    noun="trace", accepts=lambda made: isinstance(made, ClusterJobs),
    refusal="does not read the trace of a GPU cluster: it must return a "
            "netsim.traces.cluster.ClusterJobs")
