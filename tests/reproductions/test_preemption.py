"""The studies of preemption: what their claims measure, and that each runs where it can."""

from itertools import product

import pandas as pd
import pytest

from netsim.reproductions import find_reproduction
from netsim.reproductions.claims import table_of_claims
from netsim.reproductions.factorial import claims_of_shares
from netsim.reproductions.preemption import FIGURES, RECURRENT, TIRESIAS
from netsim.simulation.compatibility import policies_of

COLUMNS = ["workload.arrival_scale", "cluster.nic", "scheduler", "placement", "allocator",
           "preemption.restore_s", "seed", "jct_mean_s"]

FIFO, SJF = "fifo (backfill=True)", "sjf (by=time, backfill=True)"


def measured(text, *rows, name="preemption-recurrent"):
    """What a claim finds, given rows: scheduler, placement, cost, mean JCT; and more before it."""
    whole = [(1.0, "10Gbps", scheduler, placement, "maxmin", restore, 0, jct)
             for scheduler, placement, restore, jct in rows]
    # Others, which must not be taken for these.
    whole += [(pace, nic, scheduler, placement, allocator, restore, 0, 99.0)
              for (pace, nic, allocator) in ((0.3, "100Gbps", "maxmin"), (1.0, "100Gbps", "maxmin"),
                                             (1.0, "10Gbps", "parrot"))
              for scheduler, placement, restore, _ in rows]
    table = pd.DataFrame(whole, columns=COLUMNS).assign(jobs=1, jobs_finished=1)
    claim, = (claim for claim in find_reproduction(name).claims if claim.text == text)
    return table_of_claims([claim], table).iloc[0]["mean"]


def test_preemption_is_held_against_a_twin_at_each_cost():
    """SRTF takes 2, 3 and 4 where SJF, which restores nothing, takes 4; Tiresias 5 over FIFO's 10.

    The twin ran once, at the cost of the factorial, and is that of all three.
    """
    rows = [("srtf", "consolidated", "0s", 2), ("srtf", "consolidated", "10s", 3),
            ("srtf", "consolidated", "60s", 4), (SJF, "consolidated", "10s", 4),
            ("tiresias", "consolidated", "60s", 5), (FIFO, "consolidated", "10s", 10)]
    for restore, ratio in (("0 s", 0.5), ("10 s", 0.75), ("60 s", 1)):
        assert measured("SRTF's mean JCT over that of SJF, consolidated, restore "
                        f"{restore}, max-min, 10 Gbps", *rows) == ratio
    assert measured("Tiresias's mean JCT over that of FIFO with backfill, consolidated, restore "
                    "60 s, max-min, 10 Gbps", *rows) == 0.5


def test_wholes_are_held_against_srtf_consolidated():
    """A-SRPT has no placement in tables; 6 over 4. So has SRTF elsewhere 8 over 4."""
    rows = [("srtf", "consolidated", "10s", 4), ("srtf", "first-fit", "10s", 8),
            ("a-srpt-perfect", "-", "10s", 6), ("srtf", "consolidated", "60s", 1)]
    assert measured("A-SRPT's mean JCT over SRTF's, consolidated, 10 Gbps", *rows) == 1.5
    assert measured("SRTF's mean JCT, first fit, over SRTF's, consolidated, 10 Gbps", *rows) == 2


def test_the_network_is_a_layer_of_its_own():
    """Ten times as fast, half as long, whatever else: all of the variance of both networks."""
    study = find_reproduction("preemption-recurrent")
    first = study.vary[0]
    schedulers = ["fifo", FIFO, SJF, "srtf", "tiresias"]
    placements = ["first-fit", "consolidated", "mapped (servers=most)"]
    rows = [(1.0, nic, *choice, "10s", seed, 8.0 * 3 ** seed / (1 + (nic == "100Gbps")))
            for nic, *choice, seed in product(first["cluster.nic"], schedulers, placements,
                                              first["allocator"], (0, 1))]
    # At another pace nothing is alike.
    rows += [(0.3, *row[1:-1], row[-1] ** number) for number, row in enumerate(rows)]
    table = pd.DataFrame(rows, columns=COLUMNS).assign(jobs=1, jobs_finished=1)
    chosen = [claim for claim in study.claims if claim.text in (
        "The network explains most of the variance of the mean JCT, 10 and 100 Gbps",
        "The mean JCT at 100 Gbps over that at 10 Gbps")]
    assert table_of_claims(chosen, table)["mean"].tolist() == pytest.approx([1, 0.5])


def test_claims_of_layers_say_what_columns_are_called():
    conditions = {claim.text for claim in FIGURES[0].claims}
    assert not any("cluster.nic" in text for text in conditions)
    assert list(claims_of_shares({})) == []


@pytest.mark.parametrize(("study", "jobs"), list(zip(
    FIGURES, (RECURRENT, TIRESIAS), strict=True)))
def test_no_run_is_made_that_is_refused_or_says_nothing(study, jobs):
    """SJF-BCO on rings at 0 alone; those that choose GPUs without a placement; costs to restore
    where somebody preempts.
    """
    planned = 0
    for grid in study.vary:
        places = grid.get("placement", [None])
        for scheduler, placement in product(grid["scheduler"], places):
            policies_of(scheduler, placement, "fabric")
            if scheduler == "sjf-bco":
                planned += 1
                assert grid["workload.arrival_scale"] == [0.0]
                assert grid["workload.models"]
                assert placement is None
        if grid["preemption.restore_s"] != ("10s",):
            assert set(grid["scheduler"]) == set(jobs.preemptive)
    assert planned == 1
