"""What all tests share."""

import os
from typing import Any

import pytest
from hypothesis import settings

import netsim
from netsim.base import display, units
from netsim.results.result import Result
from tests.examples import examples

# How long an example takes says nothing: the first one may compile a kernel. In CI always the same
# examples: who changes one thing is not told of another.
settings.register_profile("netsim", deadline=None, derandomize=bool(os.environ.get("CI")),
                          max_examples=examples(100))
settings.load_profile("netsim")

# Which test is the first that needs a kernel is chance, and whether it is compiled already, too.
os.environ.setdefault(display.QUIET, "1")


@pytest.fixture(autouse=True)
def no_questions_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test be the first of its process to question numbers without a unit."""
    monkeypatch.setattr(units, "_told", set())


@pytest.fixture
def tables() -> dict[str, Any]:
    """Return the keys of the smallest experiment: the example of the Parrot paper."""
    return {"network": {"name": "parrot-fig2"}, "workload": {"name": "parrot-fig2"}}


@pytest.fixture(scope="session")
def everything() -> Result:
    """Return a result with all tables."""
    experiment = netsim.Experiment(
        name="all", network={"kind": "big-switch", "hosts": 40}, allocator="parrot",
        workload={"format": "synthetic", "jobs": 6, "iterations": 2, "arrival_scale": 0.01},
        record=["jobs", "coflows", "flows", "links", "decisions"], seed=5,
        events=[{"at": "1s", "link": "egress-3", "capacity": "1Gbps"}])
    return netsim.run(experiment)
