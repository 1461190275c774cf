"""Workloads from files and generators, all behind `read_workload`, and back to files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netsim.base.lazy import loading

if TYPE_CHECKING:
    from netsim.traces.check import TraceReport, check_trace
    from netsim.traces.cluster import ClusterConstruction, ClusterJobs, TraceWorkload
    from netsim.traces.coflow_benchmark import CoflowRow, read_coflow_benchmark
    from netsim.traces.files import Problem, TraceProblemsError
    from netsim.traces.flows import read_flows
    from netsim.traces.formats import FORMATS, Format, format_of, read_workload
    from netsim.traces.generators import poisson_resample, synthetic, synthetic_rows
    from netsim.traces.instances import read_instances
    from netsim.traces.library import PUBLIC_TRACES, PublicTrace, fetch, ready_made
    from netsim.traces.simulators import read_hpcc_flows, read_htsim, read_htsim_failures
    from netsim.traces.tiresias import Construction, TiresiasRow, read_tiresias, write_tiresias
    from netsim.traces.writers import WRITERS, convert, write_coflow_benchmark, write_instance
    from netsim.workload import history_of, split_history

__all__ = [
    "FORMATS",
    "PUBLIC_TRACES",
    "WRITERS",
    "ClusterConstruction",
    "ClusterJobs",
    "CoflowRow",
    "Construction",
    "Format",
    "Problem",
    "PublicTrace",
    "TiresiasRow",
    "TraceProblemsError",
    "TraceReport",
    "TraceWorkload",
    "check_trace",
    "convert",
    "fetch",
    "format_of",
    "history_of",
    "poisson_resample",
    "read_coflow_benchmark",
    "read_flows",
    "read_hpcc_flows",
    "read_htsim",
    "read_htsim_failures",
    "read_instances",
    "read_tiresias",
    "read_workload",
    "ready_made",
    "split_history",
    "synthetic",
    "synthetic_rows",
    "write_coflow_benchmark",
    "write_instance",
    "write_tiresias",
]

_HOME = {
    "netsim.traces.check": ("TraceReport", "check_trace"),
    "netsim.traces.cluster": ("ClusterConstruction", "ClusterJobs", "TraceWorkload"),
    "netsim.traces.coflow_benchmark": ("CoflowRow", "read_coflow_benchmark"),
    "netsim.traces.files": ("Problem", "TraceProblemsError"),
    "netsim.traces.flows": ("read_flows",),
    "netsim.traces.formats": ("FORMATS", "Format", "format_of", "read_workload"),
    "netsim.traces.generators": ("poisson_resample", "synthetic", "synthetic_rows"),
    "netsim.traces.instances": ("read_instances",),
    "netsim.traces.library": ("PUBLIC_TRACES", "PublicTrace", "fetch", "ready_made"),
    "netsim.traces.simulators": ("read_hpcc_flows", "read_htsim", "read_htsim_failures"),
    "netsim.traces.tiresias": ("Construction", "TiresiasRow", "read_tiresias", "write_tiresias"),
    "netsim.traces.writers": ("WRITERS", "convert", "write_coflow_benchmark", "write_instance"),
    "netsim.workload": ("history_of", "split_history"),
}

__getattr__ = loading(
    __name__, {name: module for module, names in _HOME.items() for name in names})
