"""The study of policies for jobs that repeat themselves: its jobs, claims and figure."""

import numpy as np
import pytest

from netsim.network import leaf_spine
from netsim.reproductions import inter_job
from netsim.reproductions.inter_job import OVERSUBSCRIBED, SETTINGS, jobs_of, study

NET = leaf_spine(8, 1, 4, "100Gbps", oversubscription=4)


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(inter_job, "_LENGTH_S", 1.0)


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_host_has_a_job(setting):
    jobs = jobs_of(setting, NET, 1)
    assert sorted(host for job in jobs for host in job.hosts) == list(range(32))
    assert sum(job.pattern is not None for job in jobs) == 4


def test_pairs_share_two_leaves_with_nobody_else():
    leaves = {job.id: {host // 4 for host in job.hosts} for job in jobs_of("pairs", NET, 1)}
    assert all(leaves[k] == leaves[k + 1] and len(leaves[k]) == 2 for k in range(0, 8, 2))
    assert len(set.union(*leaves.values())) == 8


def test_all_is_measured_and_drawn(short):
    small = study(("maxmin", "sincronia", "cassini", "crux"))
    done = small.run(seeds=1)
    assert len(done.table) == 4 * len(SETTINGS) * len(OVERSUBSCRIBED)
    assert (done.table["slowdown"] >= 1 - 1e-9).all()
    assert done.table["used"].between(0, 1).all()
    scores = done.table[done.table["policy"] == "cassini"].groupby("setting")["score"].mean()
    assert scores["pairs"] > 0.95 > scores.drop("pairs").max()
    assert "not measured" not in set(done.claims["verdict"])
    assert np.isfinite(done.claims["mean"]).all()
    assert done.draw().figure.axes


def test_what_claims_compare(short):
    small = study(("maxmin", "sincronia", "cassini", "crux"))
    done = small.run(seeds=1)
    rows = done.table.set_index(["setting", "oversubscription", "policy"])["used"]
    claims = done.claims.set_index("claim")["mean"]
    text = "The use of GPUs with Crux over that with CASSINI, jobs pairs, 4:1"
    assert claims[text] == pytest.approx(rows["pairs", 4, "crux"] / rows["pairs", 4, "cassini"])
