"""What the tests of traces of clusters share: a dozen invented jobs in each format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

FILES = {"helios": "../../../workloads/helios-sample.csv", "pai-100k": "pai100k.csv",
         "gpu-v2023": "pods.csv", "philly": "philly.json",
         "pai": "pai/pai_job_table.csv", "acme": "acme.csv",
         "swf": "jobs.swf",
         "tiresias-cluster": "../../../workloads/tiresias-sample.csv"}


@pytest.fixture(scope="session")
def trace() -> Callable[[str], Path]:
    """Return a function of a format: the path of its file."""
    return lambda name: Path(__file__).parent / FILES[name]
