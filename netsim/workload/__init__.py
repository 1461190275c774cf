"""The input of a simulation, as immutable data: jobs of stages, and stages of flows.

A job is a DAG of *stages* that repeats for a number of iterations. A stage computes for some time
and then sends one *coflow*: a set of flows that the job needs finished together. Flows are between
*ranks*, the processes of the job. A placement gives the host on which each rank runs.
"""

from netsim.base.lazy import loading
from netsim.workload.columns import Flow, Flows
from netsim.workload.history import History
from netsim.workload.job import IterationProfile, JobSpec, Stage
from netsim.workload.operations import Operations, Relation, Sending
from netsim.workload.workload import Workload, history_of, split_history

__all__ = ["Flow", "Flows", "History", "IterationProfile", "JobSpec", "Operations", "Relation",
           "Sending", "Stage", "Workload", "history_of", "split_history"]

__getattr__ = loading(__name__)
