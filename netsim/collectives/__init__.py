"""Collective operations: their messages step by step, their times and their bandwidths."""

from netsim.base.lazy import loading
from netsim.collectives.algorithms import (
    ALGORITHMS,
    COLLECTIVES,
    algorithms_of,
    check_algorithm,
    schedule,
)
from netsim.collectives.choice import (
    GENERATIONS,
    Choice,
    NcclCosts,
    SwitchCosts,
    auto,
    costs_of,
    fastest,
)
from netsim.collectives.messages import Edges, Messages, Round, Schedule, Sizes, split
from netsim.collectives.msccl import Program, is_program, read_msccl
from netsim.collectives.times import (
    Bandwidths,
    aggregated_s,
    bandwidths,
    closed_form_s,
    stepwise_s,
    waits,
)

__all__ = ["ALGORITHMS", "COLLECTIVES", "GENERATIONS", "Bandwidths", "Choice", "Edges",
           "Messages", "NcclCosts", "Program", "Round", "Schedule", "Sizes", "SwitchCosts",
           "aggregated_s", "algorithms_of", "auto", "bandwidths", "check_algorithm",
           "closed_form_s", "costs_of", "fastest", "is_program", "read_msccl", "schedule", "split",
           "stepwise_s", "waits"]

__getattr__ = loading(__name__)
