"""What one decision costs, against active flows and against links; draws docs' picture of it.

    python tests/bench/cost_per_decision.py docs/img/cost-per-decision.svg

A decision is the policy's answer and putting it into force, that is all that the fabric does at
an instant: view, order, rates of every flow, and when the next one ends. Coflows of 100 flows
between random hosts are active, and one more flow arrives; the least of some runs, in CPU seconds.
"""

import sys
import time

import numpy as np
import pandas as pd

import netsim
from netsim.fabric.fabric_process import FabricProcess
from netsim.plots.bars import save_plot
from netsim.plots.style import WIDTH_IN, dress, log_values, looks, name_axes, new_figure

POLICIES = ["maxmin", "fifo", "sebf", "aalo", "sincronia", "srtf", "parrot"]
FLOWS = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000]
PODS = [4, 6, 8, 10, 12, 14, 16]
RUNS = 9


def workload(flows: int, hosts: int) -> list[netsim.JobSpec]:
    rng = np.random.default_rng(1)
    jobs = []
    for k in range(flows // 100):
        src, dst = rng.integers(0, hosts, 100), rng.integers(0, hosts - 1, 100)
        stage = netsim.Stage("burst", netsim.Flows(src, dst + (dst >= src),
                                                   np.round(10 ** rng.uniform(6, 9, 100))))
        jobs.append(netsim.JobSpec(k, stages=[stage], hosts=range(hosts)))
    last = netsim.Stage("last", [(0, 1, 1e9)])
    return [*jobs, netsim.JobSpec(len(jobs), 5e-8, stages=[last], hosts=range(hosts))]


def cost(network: netsim.Topology, jobs: list[netsim.JobSpec], policy: str) -> float:
    """Return the CPU seconds of the second decision, when all but one flow are active already."""
    spent: list[float] = []
    decide = FabricProcess._decide

    def timed(fabric: FabricProcess) -> None:
        start = time.process_time()
        decide(fabric)
        spent.append(time.process_time() - start)

    FabricProcess._decide = timed  # type: ignore[method-assign]
    try:
        for _ in range(RUNS + 1):
            netsim.simulate(network, jobs, allocator=policy, until=1e-7, record=())
    finally:
        FabricProcess._decide = decide  # type: ignore[method-assign]
    second = spent[1::2]  # two decisions a run: the first adds all the others
    return min(second[1:])


def measure() -> pd.DataFrame:
    switch = netsim.big_switch(128, "10Gbps")
    cases = [("active flows", flows, switch, workload(flows, 128)) for flows in FLOWS]
    for pods in PODS:
        tree = netsim.fat_tree(pods, "10Gbps")
        cases.append(("links", tree.links, tree, workload(1_000, tree.hosts)))
    rows = []
    for policy in POLICIES:
        cost(switch, workload(100, 128), policy)
        rows += [(policy, against, x, cost(network, jobs, policy))
                 for against, x, network, jobs in cases]
        print(f"{policy} done", file=sys.stderr)
    return pd.DataFrame(rows, columns=["policy", "against", "x", "cpu_s"])


def draw(costs: pd.DataFrame, path: str) -> None:
    figure = new_figure(2.8, 2 * WIDTH_IN)
    titles = {"active flows": "active flows, on a switch of 128 ports",
              "links": "links of a fat-tree, 1,000 active flows"}
    for ax, (against, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        part = costs[costs["against"] == against]
        for policy, look in looks(POLICIES).items():
            of = part[part["policy"] == policy]
            ax.plot(of["x"], 1e3 * of["cpu_s"], label=policy, **look.line())
        ax.set_xscale("log")
        log_values(ax.xaxis)
        if against == "active flows":
            ax.set_yscale("log")
            log_values(ax.yaxis)
        else:
            ax.set_ylim(0, 1.1e3 * part["cpu_s"].max())
        dress(ax, "both")
        name_axes(ax, title)
    name_axes(figure.axes[0], y="CPU time of a decision (ms)")
    figure.legend(handles=figure.axes[0].get_lines(), loc="outside upper left", fontsize=7,
                  frameon=False, ncols=len(POLICIES))
    save_plot(figure.axes[0], path)


if __name__ == "__main__":
    found = measure()
    print(found.pivot_table(index=["against", "x"], columns="policy", values="cpu_s")
          .mul(1e3).round(3).to_string())
    draw(found, sys.argv[1] if len(sys.argv) > 1 else "cost-per-decision.svg")
