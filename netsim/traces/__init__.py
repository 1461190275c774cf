"""Workloads from files and generators: one reader per format, all behind `read_workload`."""

from __future__ import annotations

from netsim.traces.check import TraceReport, check_trace
from netsim.traces.formats import FORMATS, Format, read_workload
from netsim.traces.instances import read_instances
from netsim.traces.library import ready_made
from netsim.traces.poisson import poisson_resample
from netsim.traces.problems import Problem, TraceProblemsError
from netsim.traces.synthetic import synthetic, synthetic_rows
from netsim.traces.tiresias import Construction, TiresiasRow, read_tiresias, write_tiresias

__all__ = [
    "FORMATS",
    "Construction",
    "Format",
    "Problem",
    "TiresiasRow",
    "TraceProblemsError",
    "TraceReport",
    "check_trace",
    "poisson_resample",
    "read_instances",
    "read_tiresias",
    "read_workload",
    "ready_made",
    "synthetic",
    "synthetic_rows",
    "write_tiresias",
]
