"""The study of jobs that train and their neighbours: what its claims measure, and why."""

import numpy as np
import pandas as pd
import pytest

import netsim
from netsim.experiment_file.experiment import Experiment
from netsim.reproductions.claims import table_of_claims
from netsim.reproductions.llm_neighbours import FIGURES, MODELS, times_of
from netsim.studies.sweep import sweep_experiment

STUDY, = FIGURES
RINGS = f"workload.{len(MODELS)}"


def rows_of(times, seed=0):
    """A row per run of the study's grids: what each takes is `times` of its columns."""
    rows = []
    for grid in STUDY.vary:
        settings = pd.MultiIndex.from_product(grid.values(), names=grid).to_frame(index=False)
        for columns in settings.to_dict("records"):
            training, neighbours = times(columns)
            rows.append({**columns, "seed": seed, "jobs": 1, "jobs_finished": 1,
                         "training_s": training, "training_placed_s": training / 2,
                         "training_jct_s": 3 * training,
                         "neighbours_s": neighbours, **{f"{name}_s": training for name in MODELS}})
    return pd.DataFrame(rows)


def measured(text, table):
    """What a claim finds."""
    claim, = (claim for claim in STUDY.claims if claim.text == text)
    return table_of_claims([claim], table).iloc[0]["mean"]


def test_times_are_held_against_those_alone_and_against_max_min():
    """Alone 1 and 2; together 4 and 6, under Parrot 8 and 3, with larger neighbours 2 and 24."""
    def times(columns):
        if columns[f"{RINGS}.poisson_mean"] == "1000s":
            return 1, 2
        if columns["allocator"] != "parrot":
            return 4, 6
        return (2, 24) if columns[f"{RINGS}.length"] == "1600MB" else (8, 3)

    table = rows_of(times)
    assert measured("The slowdown of training, first fit, max-min", table) == 4
    assert measured("The slowdown of neighbours, Heavy-Edge, Parrot", table) == 1.5
    assert measured("What training takes at least where first fit puts it, over alone", table) == 2
    assert measured("The slowdown of training, waiting included, first fit, max-min", table) == 12
    over = "Parrot's time of {} over that of max-min, Heavy-Edge{}".format
    assert measured(over("training", ""), table) == 2
    assert measured(over("gpt3-13b", ""), table) == 2
    assert measured(over("neighbours", ", neighbours of 100 MB"), table) == 0.5
    assert measured(over("training", ", neighbours of 1.6 GB"), table) == 0.5
    assert measured(over("neighbours", ", neighbours of 1.6 GB"), table) == 4


def test_every_claim_and_the_figure_find_their_runs():
    table = pd.concat([rows_of(lambda columns: (2.0, 3.0), seed) for seed in (0, 1)])
    assert not (table_of_claims(STUDY.claims, table)["verdict"] == "not measured").any()


def test_jobs_run_from_start_to_finish():
    """Waiting does not count: those that train ran for 1, 2, 4 and 8 s, the neighbours for 9 and 1.

    Means are geometric: the root of 8, and 3. Bounds are half.
    """
    class Result:
        jobs = pd.DataFrame({"job": range(6), "start_s": 5.0, "jct_s": [1.0, 1, 1, 81, 1, 1],
                             "finish_s": 5.0 + np.array([1, 2, 4, 8, 9, 1]),
                             "lower_bound_s": [0.5, 1, 2, 4, 1, 1]})

    found = times_of(Result())
    assert [found[f"{name}_s"] for name in MODELS] == [1, 2, 4, 8]
    assert found["training_s"] == pytest.approx(8 ** 0.5)
    assert found["training_placed_s"] == pytest.approx(8 ** 0.5 / 2)
    assert found["training_jct_s"] == pytest.approx(3)
    assert found["neighbours_s"] == pytest.approx(3)


def test_alone_no_two_jobs_overlap():
    """In the grid where jobs come far apart, each ends before the next one arrives."""
    draft = STUDY.draft()
    draft.keys["workload"][:-1] = [{"pattern": "ring-all-reduce", "ranks": 8, "nbytes": "1GB",
                                    "compute": "3s"} for _ in MODELS]
    grid = {key: value for key, value in STUDY.vary[1].items() if "bucket" not in key}
    (_, result), = sweep_experiment(draft, grid, seeds=[0]).results()
    jobs = result.jobs.sort_values("start_s")
    assert len(jobs) == len(MODELS) + 10
    assert (jobs["finish_s"].to_numpy()[:-1] < jobs["start_s"].to_numpy()[1:]).all()


def test_all_policies_are_legal_together():
    for grid in STUDY.vary:
        for placement in grid["placement"]:
            for allocator in grid["allocator"]:
                Experiment(**STUDY.draft().keys | {"placement": placement, "allocator": allocator})


@pytest.mark.parametrize(("nbytes", "trains_s", "sends_s"), [
    (1e9, 5, 2), (2e9, 1.5 + 1.5 / 0.9, 7)])
def test_parrot_goes_by_the_longest_coflow_where_a_job_has_several(nbytes, trains_s, sends_s):
    """At 1 GB/s, training needs 3 s, in two coflows of 1.5 s that are there from the start.

    The job whose longest coflow is the shorter one goes first, all of it: with two of 1 s its
    neighbour ends at 2, and training at 5. With two of 2 s training has one left at 1.5, from when
    on theta is 0.9; the other ends at 7.
    """
    trains = [netsim.Stage(name, [(0, 1, 1.5e9)]) for name in "ab"]
    sends = [netsim.Stage("a", [(0, 1, nbytes)]), netsim.Stage("b", [(0, 1, nbytes)], after=["a"])]
    jobs = netsim.simulate(netsim.big_switch(2, "1GB/s"), [
        netsim.JobSpec(k, hosts=[0, 1], stages=stages) for k, stages in enumerate(
            (trains, sends))], allocator="parrot").jobs
    assert jobs["finish_s"].tolist() == pytest.approx([trains_s, sends_s])
