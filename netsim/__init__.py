"""netsim: a flow-level simulator of the network under distributed machine learning.

The front door::

    net = netsim.big_switch(hosts=128, capacity="10Gbps")
    jobs = netsim.read_workload("parrot-60")
    result = netsim.simulate(net, jobs, allocator="parrot", observe_interval="10ms")
    result.jobs, result.coflows, result.summary()

Names, and modules such as `netsim.testing`, are loaded when they are first used, so that ``import
netsim`` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netsim._version import __version__
from netsim.base.lazy import listing, loading

if TYPE_CHECKING:
    from netsim.allocators import ALLOCATORS, make_allocator
    from netsim.analysis.bounds import LowerBounds, lower_bounds
    from netsim.analysis.coflows import by_class, classify_coflows
    from netsim.analysis.links import coflows_at_bottleneck, link_utilisation, share_at_bottleneck
    from netsim.analysis.usage import edge_utilisation, gpu_usage
    from netsim.cluster import Cluster
    from netsim.edge import EdgeCloud, EdgeJob, EdgeWorkload
    from netsim.edge.bound import LPBound, lp_bound
    from netsim.edge.drawn import draw_edge_cloud, draw_edge_jobs
    from netsim.edge.files import read_edge_cloud, read_edge_jobs
    from netsim.errors import (
        AllocationError,
        Cancelled,
        DaskError,
        FetchError,
        InputError,
        MissingExtraError,
        NetsimError,
        NetsimWarning,
        NotRecordedError,
        OutputError,
        SpecError,
        StalledError,
        TraceError,
        UnitError,
        UnknownNameError,
    )
    from netsim.experiment_file.experiment import Experiment
    from netsim.experiment_file.load import load_experiment
    from netsim.experiment_file.ranges import Points, Range
    from netsim.fabric.allocation import Allocation, Event, PriorityService
    from netsim.fabric.allocator import Allocator, compiled
    from netsim.fabric.view import FabricView
    from netsim.jobs.patterns import PATTERNS, Pattern
    from netsim.llm import llm_job
    from netsim.models import ModelStage, ParallelModel
    from netsim.models.catalogue import make_model, models_for, parallel_models
    from netsim.models.planner import plan_model
    from netsim.network import (
        BigSwitch,
        Topology,
        big_switch,
        edge_cloud,
        fat_tree,
        from_networkx,
        gpu_cluster,
        leaf_spine,
        rail_pod,
        read_network,
        ring,
        torus,
    )
    from netsim.plots.perfetto import timeline, write_timeline
    from netsim.results.result import Result, load_result
    from netsim.scripting.fabric import Fabric
    from netsim.simulation.events import FaultEvent, RunEvent
    from netsim.simulation.simulation import Simulation, simulate
    from netsim.studies.calibration import Calibration, calibrate
    from netsim.studies.collective_times import collective_times
    from netsim.studies.compare import compare
    from netsim.studies.comparison import Comparison, load_comparison
    from netsim.studies.run import run
    from netsim.studies.sweep import sweep, sweep_experiment
    from netsim.studies.sweep_result import Sweep, load_sweep
    from netsim.studies.warm_up import warm_up
    from netsim.traces import (
        check_trace,
        poisson_resample,
        read_workload,
        write_coflow_benchmark,
        write_instance,
    )
    from netsim.workload import Flow, Flows, History, JobSpec, Stage, Workload

_HOME = {
    "netsim.allocators": ("ALLOCATORS", "make_allocator"),
    "netsim.analysis.bounds": ("LowerBounds", "lower_bounds"),
    "netsim.analysis.coflows": ("by_class", "classify_coflows"),
    "netsim.analysis.links": ("coflows_at_bottleneck", "link_utilisation", "share_at_bottleneck"),
    "netsim.analysis.usage": ("edge_utilisation", "gpu_usage"),
    "netsim.cluster": ("Cluster",),
    "netsim.edge": ("EdgeCloud", "EdgeJob", "EdgeWorkload"),
    "netsim.edge.bound": ("LPBound", "lp_bound"),
    "netsim.edge.drawn": ("draw_edge_cloud", "draw_edge_jobs"),
    "netsim.edge.files": ("read_edge_cloud", "read_edge_jobs"),
    "netsim.errors": ("AllocationError", "Cancelled", "DaskError", "FetchError", "InputError",
                      "MissingExtraError", "NetsimError", "NetsimWarning", "NotRecordedError",
                      "OutputError", "SpecError", "StalledError", "TraceError", "UnitError",
                      "UnknownNameError"),
    "netsim.experiment_file.experiment": ("Experiment",),
    "netsim.experiment_file.load": ("load_experiment",),
    "netsim.experiment_file.ranges": ("Points", "Range"),
    "netsim.fabric.allocation": ("Allocation", "Event", "PriorityService"),
    "netsim.fabric.allocator": ("Allocator", "compiled"),
    "netsim.fabric.view": ("FabricView",),
    "netsim.jobs.patterns": ("PATTERNS", "Pattern"),
    "netsim.llm": ("llm_job",),
    "netsim.models": ("ModelStage", "ParallelModel"),
    "netsim.models.catalogue": ("make_model", "models_for", "parallel_models"),
    "netsim.models.planner": ("plan_model",),
    "netsim.network": ("BigSwitch", "Topology", "big_switch", "edge_cloud", "fat_tree",
                       "from_networkx", "gpu_cluster", "leaf_spine", "rail_pod", "read_network",
                       "ring", "torus"),
    "netsim.plots.perfetto": ("timeline", "write_timeline"),
    "netsim.results.result": ("Result", "load_result"),
    "netsim.scripting.fabric": ("Fabric",),
    "netsim.simulation.events": ("FaultEvent", "RunEvent"),
    "netsim.simulation.simulation": ("Simulation", "simulate"),
    "netsim.studies.calibration": ("Calibration", "calibrate"),
    "netsim.studies.collective_times": ("collective_times",),
    "netsim.studies.compare": ("compare",),
    "netsim.studies.comparison": ("Comparison", "load_comparison"),
    "netsim.studies.run": ("run",),
    "netsim.studies.sweep": ("sweep", "sweep_experiment"),
    "netsim.studies.sweep_result": ("Sweep", "load_sweep"),
    "netsim.studies.warm_up": ("warm_up",),
    "netsim.traces": ("check_trace", "poisson_resample", "read_workload", "write_coflow_benchmark",
                      "write_instance"),
    "netsim.workload": ("Flow", "Flows", "History", "JobSpec", "Stage", "Workload"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = ["__version__", *sorted(_MODULE_OF)]

#: The modules that the API reference has names of, besides those above.
_PUBLIC = ("allocators", "cluster", "collectives", "edge", "engine", "errors", "fabric", "gym",
           "jobs", "llm", "models", "network", "operations", "placements", "plots", "predictors",
           "schedulers", "scripting", "studies", "testing", "traces")

__getattr__, __dir__ = loading(__name__, _MODULE_OF), listing(__name__, _PUBLIC)
