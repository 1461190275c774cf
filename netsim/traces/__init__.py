"""Workloads from files and generators, all behind `read_workload`, and back to files.

A format is a function ``read(path, *, seed, **options)`` that returns a `Workload`; without `path`
it generates one. `FORMATS` has them all. Behind it there are four kinds:

- **Flows with their bytes.** `instances`, `flows`, `coflow_benchmark`, `tiresias`, `simulators` and
  `batsim` make jobs as the file has them, and collect all problems of a file.
- **Jobs of GPU clusters**, of which only times and GPUs are known. Readers in `cluster` clean them
  to columns, `ClusterJobs`, and `ClusterConstruction` draws a model for each.
- **Recorded training.** Readers in `training` make a `RankTrace` of each rank, and `join` makes
  the operations of one job of them. In workloads of SimAI all ranks do the same: `join_alike` makes
  the operations of all from the trace of one, side by side.
- **Generators**, in `generators` and `cluster.recurrent`.

`files` tells what a file is, and `netsim.base.reading` reads it; `library` has ready-made and
public files; `writers` writes workloads.
"""

from netsim.base.lazy import loading
from netsim.base.reading import Problem, TraceProblemsError
from netsim.traces.batsim import read_batsim
from netsim.traces.cluster import ClusterConstruction, ClusterJobs, TraceWorkload
from netsim.traces.coflow_benchmark import CoflowRow, read_coflow_benchmark
from netsim.traces.flows import read_flows
from netsim.traces.formats import (
    FORMATS,
    Format,
    TraceReport,
    check_trace,
    format_of,
    read_workload,
)
from netsim.traces.generators import poisson_resample, synthetic, synthetic_rows
from netsim.traces.instances import read_instances
from netsim.traces.library import PUBLIC_TRACES, PublicTrace, fetch, ready_made
from netsim.traces.simulators import read_hpcc_flows, read_htsim, read_htsim_failures
from netsim.traces.tiresias import Construction, TiresiasRow, read_tiresias, write_tiresias
from netsim.traces.writers import WRITERS, convert, write_coflow_benchmark, write_instance
from netsim.workload import history_of, split_history

__all__ = ["FORMATS", "PUBLIC_TRACES", "WRITERS", "ClusterConstruction", "ClusterJobs", "CoflowRow",
           "Construction", "Format", "Problem", "PublicTrace", "TiresiasRow", "TraceProblemsError",
           "TraceReport", "TraceWorkload", "check_trace", "convert", "fetch", "format_of",
           "history_of", "poisson_resample", "read_batsim", "read_coflow_benchmark", "read_flows",
           "read_hpcc_flows", "read_htsim", "read_htsim_failures", "read_instances",
           "read_tiresias", "read_workload", "ready_made", "split_history", "synthetic",
           "synthetic_rows", "write_coflow_benchmark", "write_instance", "write_tiresias"]

__getattr__ = loading(__name__)
