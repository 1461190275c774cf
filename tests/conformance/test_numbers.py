"""True and false are no numbers: no option of anything that has a name takes them for 1 and 0."""

from __future__ import annotations

import inspect
import re

import pytest

import netsim
from netsim import ModelStage, ParallelModel
from netsim.allocators.registry import ALLOCATORS
from netsim.base.values import is_number
from netsim.cluster import Cluster, Contention
from netsim.edge.registry import TRANSPORTS
from netsim.errors import InputError
from netsim.jobs.patterns import PATTERNS
from netsim.network.files import TOPOLOGIES
from netsim.placements.registry import PLACEMENTS
from netsim.schedulers.registry import SCHEDULERS
from netsim.traces.formats import FORMATS, format_of
from tests.offenders import check_each

#: What builders of networks need besides.
NETWORKS = {
    "big-switch": {"hosts": 4}, "edge-cloud": {"sites": 2, "hosts_per_site": 2},
    "leaf-spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 2}, "fat-tree": {"k": 4},
    "rail-pod": {"servers": 2, "gpus_per_server": 2}, "ring": {"hosts": 4},
    "torus": {"shape": [3, 3]}, "gpu-cluster": {"servers": 2, "gpus": 2},
}

#: What formats that generate need besides.
FORMS = {"llm": {"model": "llama-7b"},
         "pattern": {"pattern": "all-to-all", "ranks": 2, "nbytes": 1e6}}


def named():
    """Yield what can be made by name, with a function that makes it, and what it needs."""
    for what, registry in (("allocator", ALLOCATORS), ("scheduler", SCHEDULERS),
                           ("placement", PLACEMENTS), ("transport", TRANSPORTS)):
        for name in registry:
            yield f"{what} {name}", registry.resolve(name), {}
    for name in PATTERNS:
        yield f"pattern {name}", PATTERNS.resolve(name), {}
    for name, needed in NETWORKS.items():
        yield f"network {name}", TOPOLOGIES.resolve(name), needed
    for form in map(format_of, FORMATS):
        if not form.needs_file:
            yield f"format {form.name}", form.read, {"seed": 0, **FORMS.get(form.name, {})}
    for kind, needed in ((Cluster, {"servers": 2, "gpus": 2}), (Contention, {}), (ModelStage, {}),
                         (ParallelModel, {"stages": [ModelStage()]})):
        yield kind.__name__, kind, needed


def numeric(kind):
    """Yield the options that are numbers, by their annotations or what they are if not given."""
    for name, parameter in inspect.signature(kind).parameters.items():
        said = str(parameter.annotation)
        if is_number(parameter.default) or (
                re.search(r"\b(int|float|Quantity)\b", said) and "bool" not in said):
            yield name


def options():
    """Yield each option that is a number, with what has it and how that is made."""
    yield from ((said, option, kind, needed) for said, kind, needed in named()
                for option in numeric(kind))


@pytest.mark.parametrize("value", [True, False])
def test_true_and_false_are_no_numbers(value):
    def refused(given):
        _, option, kind, needed = given
        with pytest.raises(InputError, match=str(value)):
            kind(**{**needed, option: value})

    check_each(refused, options(), lambda given: f"{given[0]}, {given[1]}")


def test_options_are_found():
    """Those that were taken for numbers once are among them."""
    found = {(said, option) for said, option, _, _ in options()}
    assert len(found) > 80
    assert found >= {("scheduler batch", "first"), ("scheduler sjf-bco", "u"),
                     ("Contention", "alpha"), ("Contention", "k_min"), ("allocator aalo", "factor"),
                     ("placement least-busy-servers", "lam")}
    from_files = {"graph", "htsim", "hpcc", "nccl", "simgrid", "infragraph"}
    assert set(TOPOLOGIES) - set(NETWORKS) == from_files


def test_seeds_are_no_booleans():
    jobs = netsim.read_workload(format="synthetic", jobs=1, iterations=1)
    for given in (True, [True]):
        with pytest.raises(InputError, match="True"):
            netsim.sweep("big-switch-128-10g", jobs, allocator=["maxmin"], seed=given)
