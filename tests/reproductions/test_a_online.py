"""The reproductions of A_online: what its statements are measured with, and its figures."""

import pandas as pd
import pytest

import netsim
from netsim import EdgeCloud, EdgeJob
from netsim.reproductions import a_online
from netsim.reproductions.drawings import bars, several

TWO = EdgeCloud([["a", "a"]], cloud=False)


def job(number=0, **options):
    return EdgeJob(**{"id": number, "worker_type": "a", "compute_s": 4.0, "upload_s": 1.0,
                      "cloud_upload_s": 50.0} | options)


def test_the_model_is_as_the_paper_says():
    found = a_online.model(0).set_index("check")["value"]
    assert found.pop("servers") == 100
    assert found.to_numpy() == pytest.approx(1)


@pytest.mark.parametrize(("scheduler", "preempted", "once", "suspended"), [
    ("a-online-e", 2, 2, 1), ("srtf", 2, 1, 1)])
def test_preemptions_are_counted_in_three_ways(scheduler, preempted, once, suspended):
    """Two chunks make room for two shorter ones, or a gang of two workers for another."""
    result = netsim.simulate(TWO, [
        job(0, chunks=2, compute_s=10, gang=2),
        job(1, chunks=2, arrival_s=3, compute_s=2, gang=2)], scheduler=scheduler)
    found = a_online.suspended(result)
    assert (found["preempted"], result.summary()["preemptions"]) == (preempted, once)
    assert found["suspended_jobs"] == suspended
    assert found["preempted_per_chunk"] == once / 4
    assert (found["in_cloud"], found["migrated"]) == (0, 0)


def test_utilisation_over_time():
    """Of two workers one trains for 100 h and one for 50 h, from the first hour on."""
    hour = 3600.0
    result = netsim.simulate(TWO, [
        job(0, compute_s=100 * hour, upload_s=0), job(1, compute_s=50 * hour, upload_s=0)])
    found = a_online.utilisation(result)
    assert found["utilisation_peak"] == pytest.approx(1)
    assert [found[f"busy_{50 * k}h"] for k in range(3)] == pytest.approx([1, 0.5, 0])
    table = pd.DataFrame([{"workload.name": "w", "scheduler": "s", "seed": 0, **found}])
    ax = a_online.draw_utilisation(table, [], {"w": "all jobs", "s": "A"})
    assert ax.lines[0].get_ydata()[:3].tolist() == pytest.approx([1, 0.5, 0])


def rates():
    """Total JCTs of SRTF, twice as long as A_online's, for one and two jobs."""
    return pd.DataFrame([(jobs, name, 10.0 * jobs * factor, 0) for jobs in (1, 2)
                         for name, factor in (("srtf", 2), ("a-online", 1))],
                        columns=["workload.jobs", "scheduler", "jct_total_s", "seed"])


def test_rates_are_over_srtf_at_the_same_place():
    ax = several(rates(), ["workload.jobs", "scheduler"], {"rate": "jct_rate"}, "workload.jobs",
                 {"a-online": "A_online"})
    assert [0.5, 0.5] in [each.get_ydata().tolist() for each in ax.lines]


def test_a_figure_has_only_what_is_called():
    table = rates()
    ax = bars(table[table["workload.jobs"] == 1], ["scheduler"], "jct_total_s",
              called={"srtf": "SRTF"})
    assert [each.get_text() for each in ax.get_yticklabels()] == ["SRTF"]
