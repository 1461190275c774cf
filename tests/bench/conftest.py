"""Benchmarks run in full, or with ``--bench-scale=smoke`` small enough for every commit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import netsim

TRACES = Path(os.environ.get("NETSIM_TRACES", Path(__file__).parents[3] / "shared" / "data"))


def pytest_addoption(parser):
    parser.addoption("--bench-scale", choices=("smoke", "full"), default="full",
                     help="size of the benchmarks")


@pytest.fixture
def smoke(request) -> bool:
    """Whether to run the small version."""
    return request.config.getoption("--bench-scale") == "smoke"


@pytest.fixture
def trace(smoke) -> netsim.Workload:
    """The 60-job trace in full: the real one where there is one, else the synthetic one."""
    options = {"iterations": 2, "arrival_scale": 0.01} if smoke else {}
    real = TRACES / "tiresias" / "60_job.csv"
    if real.is_file():
        return netsim.read_workload(real, seed=1, **options)
    return netsim.read_workload("parrot-60-full", seed=1, **options)


@pytest.fixture
def coflow_trace(smoke) -> netsim.Workload:
    """The Facebook coflow trace in full where there is one, else the sample of its format."""
    real = TRACES / "coflow-benchmark" / "FB2010-1Hr-150-0.txt"
    return netsim.read_workload(real if real.is_file() and not smoke else "coflow-sample")


@pytest.fixture
def once(benchmark):
    """Time one call after one warm-up, which compiles what is not compiled yet."""
    def run(function, *args, **kwargs):
        return benchmark.pedantic(function, args, kwargs, rounds=1, warmup_rounds=1)

    return run
