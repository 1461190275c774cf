"""Compiled loops over the servers that a job takes GPUs from.

`tests/cluster/test_placement_kernels.py` has readable versions.
"""

from __future__ import annotations

from typing import Any

from netsim.base.compiling import in_place

#: Orders of servers: by number; those with most free GPUs first; those with fewest first.
INDEX, MOST, LEAST = 0, 1, 2


@in_place
def take_servers(free_on: Any, need: int, rule: int, servers: Any, counts: Any) -> int:
    """Take GPUs from servers in the order of a rule until there are enough.

    The rule is `INDEX`, `MOST` or `LEAST`; ties go to the lower number. The servers, and how many
    GPUs to take from each, are written to `servers` and `counts`, which have room for all servers.
    Returns the number of these servers; 0 if too few GPUs are free.
    """
    taken = 0
    level = 0  # free GPUs of the servers that are being taken; 0 before the first
    while True:
        following = 0
        for server in range(len(free_on)):
            free = free_on[server]
            if free == 0:
                continue
            if rule == INDEX or free == level:
                servers[taken] = server
                counts[taken] = min(free, need)
                need -= counts[taken]
                taken += 1
                if need == 0:
                    return taken
            elif rule == MOST:
                if (level == 0 or free < level) and free > following:
                    following = free
            elif free > level and (following == 0 or free < following):
                following = free
        if following == 0:
            return 0
        level = following


@in_place
def place_ranks(free: Any, first: Any, servers: Any, placement: Any, gpus: Any,
                following: Any) -> None:
    """Choose the GPU of each rank: the first free ones of each server, for its stages in order.

    `first` has the first GPU of each server of the cluster, and `placement[place, stage]` says how
    many GPUs of ``servers[place]`` work on a stage. The choice is written to `gpus`, stage by
    stage, and server by server within a stage. `following` is a work array: the next rank of each
    stage.
    """
    rank = 0
    for stage in range(placement.shape[1]):
        following[stage] = rank
        for place in range(placement.shape[0]):
            rank += placement[place, stage]
    for place in range(placement.shape[0]):
        gpu = first[servers[place]]
        for stage in range(placement.shape[1]):
            for _ in range(placement[place, stage]):
                while not free[gpu]:
                    gpu += 1
                gpus[following[stage]] = gpu
                following[stage] += 1
                gpu += 1
