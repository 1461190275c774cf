"""What the tests of traces share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from netsim.errors import NetsimError
from netsim.traces import read_workload
from netsim.workload import Workload


@pytest.fixture(scope="session")
def sample() -> Path:
    """Return the path of the six invented jobs."""
    return Path(__file__).parents[2] / "workloads" / "tiresias-sample.csv"


@pytest.fixture(scope="session")
def facts() -> Callable[[Workload], list[tuple[Any, ...]]]:
    """Return a function that lists all that a workload of pattern jobs says."""
    return lambda workload: [
        (job.id, job.arrival_s, job.iterations, dict(job.pattern), job.ranks, job.nbytes,
         job.redraw, job.name) for job in workload]


@pytest.fixture(scope="session")
def outcome() -> Callable[[Path], Workload | NetsimError]:
    """Return a function that reads a file, and lets no other than netsim's errors pass."""

    def reader(path: Path) -> Workload | NetsimError:
        try:
            return read_workload(path)
        except NetsimError as error:
            return error

    return reader
