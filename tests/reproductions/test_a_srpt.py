"""The reproductions of A-SRPT: what its claims measure, and that sweeps can say the server rule."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim import Cluster, JobSpec, Workload
from netsim.errors import InputError
from netsim.reproductions import find_reproduction
from netsim.reproductions.a_srpt_mapping import measure_mappings, random_job
from netsim.reproductions.claims import table_of_claims

BASELINES = ("spjf", "spwf", "wcs-duration", "wcs-workload", "wcs-subtime")


def measured(name, text, rows, columns):
    """What a claim finds, given runs: the columns, then the mean JCT."""
    table = pd.DataFrame(rows, columns=[*columns, "jct_mean_s"]).assign(jobs=1, jobs_finished=1)
    if "seed" not in table:
        table["seed"] = 0
    claim = next(claim for claim in find_reproduction(name).claims if claim.text == text)
    return table_of_claims([claim], table).iloc[0]


def runs_of(own, index, most, *place):
    """Rows of one place: A-SRPT, and the baselines with either rule."""
    rows = [(*place, "a-srpt", own)]
    rows += [(*place, f"{name} (servers=index)", value)
             for name, value in zip(BASELINES, index, strict=True)]
    return rows + [(*place, f"{name} (servers=most)", value)
                   for name, value in zip(BASELINES, most, strict=True)]


def test_a_srpt_is_held_against_the_best_baseline_with_each_rule():
    """6 over the least of 9, 8, 12, 10 and 11; and of others, the least of which is 4."""
    runs = runs_of(6, (9, 8, 12, 10, 11), (5, 4, 7, 9, 8))
    for rule, figure in (("servers by number", 0.75), ("most free first", 1.5)):
        row = measured("a-srpt-testbed", "A-SRPT's mean flow time over the best baseline's, "
                       + rule, runs, ["scheduler"])
        assert (row["mean"], row["verdict"]) == (
            figure, "holds" if figure < 1 else "differs")
    row = measured("a-srpt-testbed", "A-SRPT's mean flow time over that of SPWF, most free first",
                   runs, ["scheduler"])
    assert row["mean"] == 1.5


def test_the_best_baseline_may_be_another_for_each_seed():
    """3/4 and 3/2, not 3 over the mean of one of them."""
    rows = [*runs_of(3, (4, 9, 9, 9, 9), (1,) * 5, 0), *runs_of(3, (9, 9, 9, 9, 2), (1,) * 5, 1)]
    row = measured("a-srpt-testbed", "A-SRPT's mean flow time over the best baseline's, servers by "
                   "number", rows, ["seed", "scheduler"])
    assert (row["least"], row["most"]) == (0.75, 1.5)


def test_a_baseline_that_is_missing_gives_no_verdict():
    """The best of the others would flatter nobody but might: it is not known."""
    runs = runs_of(6, (9, 8, 12, 10, 11), (5, 4, 7, 9, 8))
    row = measured("a-srpt-testbed", "A-SRPT's mean flow time over the best baseline's, servers by "
                   "number", runs[:2] + runs[3:], ["scheduler"])
    assert row["verdict"] == "not measured"


def test_each_place_is_held_by_itself():
    rows = [*runs_of(1, (2,) * 5, (4,) * 5, "1Gbps", 0.4),
            *runs_of(9, (3,) * 5, (3,) * 5, "1Gbps", 0.8)]
    columns = ["cluster.nic", "workload.single_gpu_share", "scheduler"]
    for share, rule, figure in (("40%", "servers by number", 0.5), ("40%", "most free first", 0.25),
                                ("80%", "servers by number", 3)):
        text = f"A-SRPT's mean flow time over the best baseline's, {rule}, 1 Gbps, {share} on one "
        row = measured("a-srpt-single", text + "GPU", rows, columns)
        assert row["mean"] == pytest.approx(figure)


def test_figures_show_the_ratios_of_the_tables():
    """Of two seeds, A-SRPT over the best by number is 6/8 and 6/2: a geometric mean of 1.5."""
    rows = [(*run, metric, seed) for seed, best in enumerate((8, 2)) for run in
            [*runs_of(6, (9, best, 12, 10, 11), (5, 4, 7, 9, 8)), ("a-srpt-perfect", 3)]
            for metric in [run[-1] * 2]]
    table = pd.DataFrame(rows, columns=["scheduler", "jct_mean_s", "makespan_s", "seed"])
    table = table.assign(jobs=1, jobs_finished=1)
    found = find_reproduction("a-srpt-testbed")
    claims = table_of_claims(found.claims, table)
    of_best = claims[claims["claim"].str.endswith("best baseline's, servers by number")]
    assert of_best["mean"].tolist() == pytest.approx([1.5, 1.5, 0.75, 0.75])
    assert (of_best["verdict"] == ["differs"] * 2 + ["partly"] * 2).all()
    panels = found.draw(SimpleNamespace(table=table)).figure.axes
    panels[-1].texts[-1].remove()  # what whiskers are
    assert [[text.get_text() for text in ax.texts] for ax in panels] == [[
        f"{mean:.2f}" for rule in ("servers by number", "most free first") for mean in claims.loc[
            claims["claim"].str.contains(f"mean flow time .*{rule}"), "mean"]]] * 2


def test_predictors_are_compared_at_the_same_tau():
    rows = [("random-forest", 0, 3), ("mean", 0, 4), ("random-forest", 100, 1), ("mean", 100, 9)]
    text = "The mean flow time with a random forest over that with mean of group, tau = 0"
    columns = ["scheduler.predictor", "scheduler.tau"]
    assert measured("a-srpt-predictors", text, rows, columns)["mean"] == 0.75


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
    with pytest.raises(InputError, match="servers must be one of index, most, least, not 'first'"):
        netsim.simulate(cluster, jobs, scheduler="spjf:servers=first", execution="asrpt")


def test_random_jobs_fill_what_they_are_given():
    rng = np.random.default_rng(3)
    for gpus in (2, 5, 16, 32):
        model, counts = random_job(rng, gpus)
        assert model.gpus == sum(counts) == gpus
        assert len(model.stages) >= 2
        assert 1 <= min(counts) <= max(counts) <= 8


def test_mappings_are_held_against_the_optimum(monkeypatch):
    monkeypatch.setattr("netsim.reproductions.a_srpt_mapping._GPUS", (4,))
    monkeypatch.setattr("netsim.reproductions.a_srpt_mapping._JOBS", 5)
    table, again = measure_mappings(1), measure_mappings(1)
    assert (table["over_optimum"] >= 1).all()
    assert (table["worst"] >= table["over_optimum"]).all()
    assert table.set_index("mapping")["as_good"]["optimal"] == 1
    pd.testing.assert_frame_equal(table.drop(columns="took_ms"), again.drop(columns="took_ms"))
