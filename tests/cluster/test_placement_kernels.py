"""The loops over servers of `netsim.placements.kernels`, beside versions to read."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.cluster.cluster import Cluster
from netsim.models import ModelStage, ParallelModel
from netsim.placements.mapped import SERVER_RULES, MappingCache


def taken(free_on, need, rule):
    """Take GPUs server by server, of servers sorted by a rule; None if too few are free."""
    servers = [server for server, free in enumerate(free_on) if free]
    if rule != "index":
        servers.sort(key=lambda server: free_on[server] * (1 if rule == "least" else -1))
    found = {}
    for server in servers:
        if need:
            found[server] = min(free_on[server], need)
            need -= found[server]
    return None if need else ([*found], [*found.values()])


def chosen(free, first, servers, placement):
    """Return the GPUs of ranks: of each server the first free ones, dealt to its stages in turn."""
    offers = [[gpu for gpu in range(first[server], first[server + 1]) if free[gpu]]
              for server in servers]
    own = [[[offer.pop(0) for _ in range(count)] for count in row]
           for offer, row in zip(offers, placement, strict=True)]
    return [gpu for stage in range(len(placement[0])) for row in own for gpu in row[stage]]


@given(st.lists(st.integers(0, 8), min_size=1, max_size=12), st.integers(1, 40),
       st.sampled_from(SERVER_RULES))
def test_servers_and_counts(free_on, need, rule):
    cache = MappingCache(Cluster(len(free_on), 8))
    assert cache.counts(np.array(free_on), need, rule) == taken(free_on, need, rule)


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=5),
       st.integers(1, 4), st.randoms(use_true_random=False))
def test_gpus_of_ranks(rows, stages, random):
    """Any free GPUs of servers of 6, a random number of which work on each stage."""
    free = np.array(rows).ravel()
    cluster = Cluster(len(rows), 6)
    servers = random.sample(range(len(rows)), random.randint(1, len(rows)))
    placement = np.zeros((len(servers), stages), np.int64)
    for place, server in enumerate(servers):
        for _ in range(random.randint(0, int(sum(rows[server])))):
            placement[place, random.randrange(stages)] += 1
    found = MappingCache(cluster).gpus(free, servers, placement)
    assert found.tolist() == chosen(free, cluster.first, servers, placement.tolist())


@pytest.mark.parametrize(("counts", "suits"), [([3, 3], False), ([4, 2], True), ([2, 2, 2], True)])
def test_slices_stay_on_a_server(counts, suits):
    """Three replicas of 2 slices on 6 GPUs: 3 and 3 hold only one each."""
    model = ParallelModel([ModelStage(3, slices=2)])
    cache = MappingCache(Cluster(len(counts), 4))
    found = cache.map(model, np.array(counts), "most")
    assert (found is not None) == suits
