"""Random cases, and the policies that are run on them in exact arithmetic and in netsim.

``python tests/differential/cases.py 1000`` runs 1,000 cases of each policy and prints the largest
relative difference of a coflow's finish time; a case that differs by more than 1e-9 is printed.
"""

from __future__ import annotations

import random
import sys
from fractions import Fraction
from functools import partial
from pathlib import Path

import netsim

sys.path.insert(0, str(Path(__file__).parent))
import exact

THRESHOLDS = (4, 12)

#: Options of netsim, and what makes the same policy in exact arithmetic.
POLICIES = {
    "maxmin": ({"name": "maxmin"}, exact.Fair),
    "maxmin, coflow events": ({"name": "maxmin", "decisions": "coflow"},
                              partial(exact.Fair, "coflow")),
    "srtf": ({"name": "srtf"}, exact.SRTF),
    "sincronia": ({"name": "sincronia"}, exact.Sincronia),
}
for _name, _kind, _keys in (("fifo", exact.FIFO, (None,)),
                            *((name, kind, ("original", "remaining")) for name, kind in (
                                ("scf", exact.SCF), ("lcf", exact.LCF), ("ncf", exact.NCF),
                                ("sebf", exact.SEBF)))):
    for _key in _keys:
        for _decisions, _rest in (("flow", "maxmin"), ("flow", "greedy"), ("flow", "none"),
                                  ("coflow", "maxmin"), ("coflow", "greedy"),
                                  ("flow", "coflowsim"), ("coflow", "coflowsim")):
            POLICIES[", ".join(filter(None, (_name, _key, _decisions, _rest)))] = (
                {"name": _name, "decisions": _decisions, "work_conservation": _rest}
                | ({"key": _key} if _key else {}),
                partial(_kind, _decisions, _rest, _key))
for _weights in ("linear", "strict"):
    for _fifo in ("id", "entry"):
        for _observe in (0, 0.5, "coflow"):
            for _decisions in ("flow", "coflow"):
                POLICIES[f"aalo, {_weights}, {_fifo}, {_observe}, {_decisions}"] = (
                    {"name": "aalo", "thresholds": THRESHOLDS, "weights": _weights, "fifo": _fifo,
                     "observe": _observe, "decisions": _decisions},
                    partial(exact.DCLAS, _decisions, THRESHOLDS, _weights, _fifo,
                            _observe if _observe == "coflow" else Fraction(_observe)))


def draw(seed):
    """Draw hosts' port capacities and jobs: (arrival, coflows of (src, dst, bytes))."""
    rng = random.Random(seed)
    hosts = rng.randint(2, 4)
    ports = [[rng.choice((1, 1, 2, 4)) for _ in range(hosts)] for _ in range(2)]
    jobs = [(Fraction(rng.randint(0, 8), 2),
             [[(rng.randrange(hosts), rng.randrange(hosts), rng.randint(1, 12))
               for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(1, 2))])
            for _ in range(rng.randint(1, 5))]
    return ports, jobs


def run_exactly(ports, jobs, policy):
    """Return when each coflow finishes, job by job."""
    hosts = len(ports[0])
    capacity = dict(enumerate(map(Fraction, ports[0] + ports[1])))
    ranks = {k: rank for rank, k in enumerate(sorted(range(len(jobs)), key=lambda k: jobs[k][0]))}
    coflows = []
    for k, (arrival, chain) in enumerate(jobs):
        parent = None
        for place, flows in enumerate(chain):
            parent = exact.Coflow(len(coflows), ranks[k], place, arrival, [
                exact.Flow(Fraction(size), (src, hosts + dst)) for src, dst, size in flows], parent)
            coflows.append(parent)
    exact.simulate(coflows, capacity, policy)
    return [float(coflow.finish) for coflow in coflows]


def run_in_netsim(ports, jobs, allocator, **options):
    """Return when each coflow finishes, job by job."""
    network = netsim.big_switch(len(ports[0]), egress=list(map(float, ports[0])),
                                ingress=list(map(float, ports[1])), loopback_uses_ports=True)
    specs = [netsim.JobSpec(k, float(arrival), hosts=range(network.hosts), stages=[
        netsim.Stage(f"c{place}", flows, after=(f"c{place - 1}",) if place else ())
        for place, flows in enumerate(chain)]) for k, (arrival, chain) in enumerate(jobs)]
    result = netsim.simulate(network, specs, allocator=allocator, **options)
    return result.coflows.sort_values(["job", "valid_s", "coflow"])["finish_s"].tolist()


def difference(name, seed):
    """Return the largest relative difference of a finish time in one case."""
    allocator, policy = POLICIES[name]
    ports, jobs = draw(seed)
    found = run_in_netsim(ports, jobs, allocator)
    return max(abs(a - b) / b for a, b in zip(found, run_exactly(ports, jobs, policy()),
                                              strict=True))


def main(count):
    for name in POLICIES:
        worst = [(difference(name, seed), seed) for seed in range(count)]
        wrong = [seed for off, seed in worst if off > 1e-9]
        print(f"{name:40} {count} cases, largest difference {max(worst)[0]:.1e}, "
              f"{len(wrong)} above 1e-9 {wrong[:5]}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
