"""What does not concern the coflows in flight does not change them, to the last bit."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import simpy

import netsim
from netsim.allocators import ALLOCATORS
from tests.examples import examples


def ends(allocator, unrelated, seed):
    """Return when each of three random coflows ends, while `unrelated` runs beside them."""
    rng, env = np.random.default_rng(seed), simpy.Environment()
    fabric = netsim.Fabric(env, netsim.big_switch(8, 1.0, overhead=0.25), allocator=allocator)
    found = {}

    def sends(k, flows):
        yield fabric.coflow(flows)
        found[k] = env.now

    for k in range(3):
        count = int(rng.integers(2, 6))
        src, dst = rng.integers(0, 5, count), rng.integers(1, 5, count)
        env.process(sends(k, [(a, (a + b) % 5, size) for a, b, size in zip(
            src.tolist(), dst.tolist(), rng.uniform(1, 5, count).tolist(), strict=True)]))
    unrelated(env, fabric, float(rng.uniform(0.5, 5)))
    for _ in range(2000):
        if len(found) == 3:
            return found
        env.step()
    return f"stands still at {env.now}"


def ends_a_job(env, fabric, at):
    job = fabric.job("idle")

    def other():
        yield env.timeout(at)
        job.end()
    env.process(other())


def cancels(env, fabric, at):
    """Cancel a coflow that waits for its overhead, and never becomes active."""
    def other():
        yield env.timeout(at)
        coflow = fabric.coflow([(6, 7, 1.0)])
        yield env.timeout(0.1)
        coflow.cancel()
        with contextlib.suppress(netsim.Cancelled):
            yield coflow
    env.process(other())


def refuses_to_end(env, fabric, at):
    job = fabric.job("busy")

    def other():
        yield env.timeout(0)
        fabric.coflow([(6, 7, 100.0)], job=job)
        yield env.timeout(at)
        with pytest.raises(netsim.NetsimError, match="in flight"):
            job.end()
    env.process(other())


@pytest.mark.parametrize("allocator", ["fifo", "sebf", "aalo", "srtf", "parrot", "maxmin",
                                       "sincronia", "lccf"])
@pytest.mark.parametrize("unrelated", [ends_a_job, cancels])
def test_the_same_ends(allocator, unrelated):
    assert allocator in ALLOCATORS.names
    for seed in range(examples(12)):
        alone = ends(allocator, lambda *_: None, seed)
        assert ends(allocator, unrelated, seed) == alone


@pytest.mark.parametrize("allocator", ["fifo", "aalo"])
def test_a_job_that_cannot_end(allocator):
    """Whether it could is looked up on the way, while others send."""
    for seed in range(5):
        def later(env, fabric, at):
            refuses_to_end(env, fabric, 1e3)
        assert ends(allocator, refuses_to_end, seed) == ends(allocator, later, seed)
