"""The reproductions of A-SRPT: what its statements are measured with, and the server rule."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import Cluster, JobSpec, Workload
from netsim.errors import InputError
from netsim.reproductions import a_srpt

BASELINES = ("spjf", "spwf", "wcs-duration", "wcs-workload", "wcs-subtime")


def test_the_model_is_as_the_paper_says():
    """All are 1 but the bound of Theorem 1, 90 s over 60 s of 4, and the number of plans."""
    found = a_srpt.model(0).set_index("check")["value"]
    assert found.pop("theorem 1") == pytest.approx(90 / 60 / 4)
    assert found.pop("plans") > 1
    assert found.to_numpy() == pytest.approx(1)


def test_jobs_run_longer_than_they_could():
    """On two servers of one GPU a job that all-reduces takes longer than on one of two."""
    model = netsim.make_model("bert-large", 2)
    job = [JobSpec(0, model=model, iterations=10)]
    over = [a_srpt.over_shortest(netsim.simulate(Cluster(gpus=gpus, nic="1Gbps"), job,
                                                 scheduler="fifo", execution="asrpt"))
            for gpus in ([2], [1, 1])]
    assert over[0]["over_shortest"] == pytest.approx(1)
    assert over[1]["over_shortest"] > 2


def test_heavy_edge_is_held_against_the_ilp(monkeypatch):
    monkeypatch.setattr("netsim.reproductions.a_srpt._CASES", 1)
    monkeypatch.setattr("netsim.reproductions.a_srpt._LIMIT_S", 1.0)
    found = a_srpt.table_2(1).set_index(["model", "mapping"])
    for model in ("vgg19", "gpt-175b"):
        own, best = found.loc[(model, "heavy-edge")], found.loc[(model, "optimal")]
        assert own["alpha_ms"] >= best["alpha_ms"] * (1 - 1e-9) > 0
        assert own["proven"] == 0
    assert found.loc[("vgg19", "optimal"), "proven"] == 1


@pytest.fixture
def few(monkeypatch):
    """Errors of 200 jobs in place of 758,223."""
    whole = a_srpt.read_workload
    monkeypatch.setattr(a_srpt, "read_workload", lambda **options: whole(
        **{**options, "jobs": 200}))
    return a_srpt.errors(0)


def test_errors_are_those_of_the_evaluation(few):
    jobs = netsim.read_workload(format="recurrent", jobs=200, train=0.8, gpu="v100",
                                mean_interarrival="7.065s", configurations="planned-apart", seed=0)
    found = netsim.predictors.evaluate("median", jobs)
    row = few.set_index("predictor").loc["median"]
    assert row["mae"] == found.mae
    assert row["trained"] == 0.8
    off = np.abs(found.predicted - found.iterations)
    assert row["below_100"] == (off < 100).mean()


def test_the_figure_of_errors_has_all_jobs(few):
    ax = a_srpt.draw_errors(few, [])
    assert sum(bar.get_height() for bar in ax.patches) == pytest.approx(1)
    assert [each.get_title(loc="left") for each in ax.figure.axes] == [
        "errors (Fig. 4)", "mean error (Fig. 9)"]


def test_the_server_rule_is_an_option_of_each_baseline():
    """Two jobs of one GPU: the second goes beside the first, or to the other server."""
    jobs = Workload([JobSpec(k, pattern="ring-all-reduce", ranks=1, compute_s=1, iterations=5)
                     for k in range(2)])
    cluster = Cluster(gpus=[2, 2])
    for name, (rule, places) in product(BASELINES, (("index", ["0:1", "0:1"]),
                                                    ("most", ["0:1", "1:1"]))):
        scheduler = {"name": name, "servers": rule}
        if name != "wcs-subtime":  # which asks for no prediction
            scheduler["predictor"] = "perfect"
        result = netsim.simulate(cluster, jobs, scheduler=scheduler, execution="asrpt")
        assert result.jobs["placement"].tolist() == places, (name, rule)
        assert result.run["placement"]["servers"] == rule
    given = netsim.simulate(cluster, jobs, scheduler=scheduler, execution="asrpt",
                            placement="mapped:servers=index")
    assert given.jobs["placement"].tolist() == ["0:1", "0:1"]
    with pytest.raises(InputError, match="unknown servers 'first'; choose from: index"):
        netsim.simulate(cluster, jobs, scheduler="spjf:servers=first", execution="asrpt")


def test_means_of_a_bar_are_of_its_column():
    """A bar per mapping, in a panel per model."""
    from netsim.reproductions.drawings import bars

    table = pd.DataFrame([("a", "x", 1.0, 0), ("a", "y", 2.0, 0), ("b", "x", 3.0, 0),
                          ("b", "y", 4.0, 0)], columns=["model", "mapping", "alpha_ms", "seed"])
    ax = bars(table, [], "alpha_ms", by="mapping", col="model")
    assert [[bar.get_width() for bar in each.patches] for each in ax.figure.axes] == [
        [1, 2], [3, 4]]


def test_a_time_may_have_a_logarithmic_axis():
    from netsim.reproductions.drawings import lines

    table = pd.DataFrame([("sebf", jobs, jobs * 3600.0, 0) for jobs in (10, 20)],
                         columns=["scheduler", "workload.sample", "jct_total_s", "seed"])
    drawn = {log: lines(table, ["scheduler", "workload.sample"], "jct_total_s", "workload.sample",
                        log=log) for log in (False, True)}
    assert [ax.get_yscale() for ax in drawn.values()] == ["linear", "log"]
    assert {ax.get_xlabel() for ax in drawn.values()} == {"jobs"}
