"""What the tests of experiments share."""

from __future__ import annotations

from typing import Any

import pytest

import netsim
from netsim.results.result import Result


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
