"""Sweeps: every combination and seed, kept run by run, the same on one process or many."""

import csv
import datetime
import hashlib
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.errors import (
    InputError,
    NetsimWarning,
    OutputError,
    SpecError,
    UnitError,
    UnknownNameError,
)
from netsim.experiment_file.load import Draft, prepare
from netsim.experiment_file.tables import SweepTable
from netsim.studies import code_version as versions
from netsim.studies.executors import Failure, one_by_one, pooled
from netsim.studies.grid import refuse_twins, runs_of_calls, runs_of_experiment
from tests.pairs import but, exhaustive

ROOT = Path(netsim.__file__).parent.parent

SMALL = """
seed = 3
[network]
kind = "big-switch"
hosts = 128
capacity = "1Gbps"
[workload]
format = "synthetic"
jobs = 4
iterations = 2
length = "10MB"
"""

GRID = {"network.capacity": ["1Gbps", "4Gbps"], "allocator": ["parrot", "lccf"]}


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def files(folder):
    """The tables of a sweep, and its runs without how long they took."""
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*.csv"))}


# --- the grid ------------------------------------------------------------------------------


def test_a_row_per_combination_and_seed(small, tmp_path):
    found = netsim.sweep_experiment(small, GRID, seeds=3, folder=tmp_path / "s")
    assert found.columns == ("network.capacity", "allocator")
    assert found.table[["network.capacity", "allocator", "seed"]].to_numpy().tolist() == [
        [rate, policy, seed] for rate in ("1Gbps", "4Gbps") for policy in ("parrot", "lccf")
        for seed in (3, 4, 5)]
    alone = netsim.run(netsim.load_experiment(small, ["network.capacity=4Gbps", "seed=4",
                                                      "allocator=lccf"])).summary()
    row = found.table.query("`network.capacity` == '4Gbps' and allocator == 'lccf' and seed == 4")
    for name in ("jct_total_s", "cct_p95_s", "makespan_s", "decisions"):
        assert row[name].item() == alone[name]
    assert row["over_lower_bound"].item() == alone["jct_total_s"] / alone["lower_bound_total_s"]
    assert (found.missing, len(found.failures)) == (0, 0)


def test_who_gets_what_is_left_over_is_two_columns_of_words(small, tmp_path):
    netsim.sweep_experiment(small, {"allocator": ["parrot", "sebf"]}, folder=tmp_path / "s")
    with open(tmp_path / "s" / "runs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["leftover"], row["decides_per"]) for row in rows] == [
        ("backfill to coflows", "coflow"), ("maxmin to flows", "flow")]
    assert "sharing" not in rows[0]
    assert not any("{" in value for row in rows for value in row.values())


def test_several_grids_are_one_sweep(small):
    """Two by one and one by two; what a grid does not vary is a dash in its rows."""
    grids = [{"network.capacity": ["1Gbps", "4Gbps"], "allocator": ["parrot"]},
             {"allocator": ["lccf"], "observe_interval": ["1ms", "10ms"]}]
    found = netsim.sweep_experiment(small, grids)
    assert found.columns == ("network.capacity", "allocator", "observe_interval")
    assert found.table[[*found.columns]].to_numpy().tolist() == [
        ["1Gbps", "parrot", "-"], ["4Gbps", "parrot", "-"],
        ["-", "lccf", "1ms"], ["-", "lccf", "10ms"]]
    alone = netsim.sweep_experiment(small, grids[1]).table
    assert alone["jct_total_s"].tolist() == found.table["jct_total_s"].tolist()[2:]
    with pytest.raises(InputError, match="two runs of the sweep are the same"):
        netsim.sweep_experiment(small, [grids[0], {"allocator": ["parrot"]}])
    with pytest.raises(SpecError, match="the list of grids is empty"):
        netsim.sweep_experiment(small, [])


def test_the_same_seed_gives_the_same_workload_to_every_policy(small):
    found = netsim.sweep_experiment(small, {"allocator": ["parrot", "lccf", "maxmin"]}, seeds=4)
    per_seed = found.table.groupby("seed")["lower_bound_total_s"]
    assert (per_seed.nunique() == 1).all()
    assert per_seed.first().nunique() == 4


def test_a_workload_with_a_seed_of_its_own_keeps_it(small):
    small.write_text(small.read_text() + "seed = 9\n")
    found = netsim.sweep_experiment(small, seeds=3)
    assert found.table["bytes"].nunique() == 1


def test_an_allocator_is_put_in_place_before_its_options(small):
    """Whatever the order in which they are varied: what is run is what the columns say."""
    cells = runs_of_experiment(*prepare(small, {
        "allocator.theta_max": [0.6, 0.7], "allocator": ["parrot"],
        "network. capacity": ["1Gbps"]}, 1))
    assert [(dict(cell.varied), cell.task.spec["allocator"]["theta_max"]) for cell in cells] == [
        ({"allocator.theta_max": theta, "allocator": "parrot",
          "network.capacity": "1Gbps"}, theta) for theta in (0.6, 0.7)]


def test_an_experiment_with_a_seeded_workload_is_swept_as_its_file(small):
    keys = {"network": {"name": "parrot-fig2"}, "workload": {"name": "parrot-60", "seed": 0}}
    for workload, seeds in ((keys["workload"], {0}), ({"name": "parrot-60"}, {0, 1})):
        experiment = netsim.Experiment(
            **keys | {"workload": workload, "network": {"name": "big-switch-128-10g"}})
        cells = runs_of_experiment(*prepare(experiment, {"allocator": ["parrot"]}, 2))
        assert {cell.task.spec["workload"]["seed"] for cell in cells} == seeds


def test_runs_that_were_stopped_have_no_means(small):
    small.write_text('until = "0.2s"\n' + small.read_text())
    found = netsim.sweep_experiment(small, GRID, seeds=2)
    assert (found.table["jobs_finished"] < 4).any()
    means, ratios = found.means(["jct_total_s", "decisions"]), found.ratios()
    stopped = found.table.assign(short=found.table["jobs_finished"] < 4).groupby(
        ["network.capacity", "allocator"], sort=False)["short"].any()
    assert means["jct_total_s"].isna().tolist() == stopped.tolist()
    assert means["decisions"].notna().all()
    assert ratios["ratio"].isna().any()


def test_the_first_of_the_grid_is_the_baseline_or_nothing_is(small, policies):
    grid = {"allocator": [f"{policies}:Raises", "maxmin", "lccf"]}
    found = netsim.sweep_experiment(small, grid, seeds=2)
    with pytest.raises(InputError, match=f"there is no run of {policies}:Raises to compare with"):
        found.ratios()
    assert found.ratios_if_any() is None
    assert not (found.folder / "ratios.csv").exists()
    assert found.ratios(baseline="maxmin")["baseline"].unique().tolist() == ["maxmin"]


def test_the_grid_may_stand_in_the_file(small):
    small.write_text(small.read_text() + textwrap.dedent("""
        [sweep]
        seeds = [5, 2]
        [sweep.vary]
        network.capacity = ["1Gbps"]
        "allocator" = ["parrot:theta_max=0.6", {name = "lccf"}]
    """))
    found = netsim.sweep_experiment(small)
    assert found.table[["network.capacity", "allocator", "seed"]].to_numpy().tolist() == [
        ["1Gbps", "parrot (theta_max=0.6)", 5], ["1Gbps", "parrot (theta_max=0.6)", 2],
        ["1Gbps", "lccf", 5], ["1Gbps", "lccf", 2]]
    other = netsim.sweep_experiment(small, {"allocator": ["maxmin"]}, seeds=[1])
    assert other.table[["allocator", "seed"]].to_numpy().tolist() == [["maxmin", 1]]


@pytest.mark.parametrize("vary", [None, GRID])
def test_a_table_is_needed_in_the_file(small, vary):
    small.write_text("sweep = 0\n" + small.read_text())
    with pytest.raises(SpecError, match="sweep: must be a table, not 0"):
        netsim.sweep_experiment(small, vary)


@pytest.mark.parametrize(("vary", "message"), [
    ({"network.capcity": ["1Gbps"]}, r"network.capcity: .*did you mean 'capacity'.*set by "
                                     r"'network.capcity=1Gbps'"),
    ({"network.capacity": []}, "sweep.vary.network.capacity: there are no values"),
    ({"network.capacity": ["1Gbps", "fast"]}, "set by 'network.capacity=fast'"),
    ({"seed": [1, 2]}, r"'seed' cannot be varied: give seeds"),
    ({"compare.allocators": [["parrot"]]}, "'compare.allocators' cannot be varied: vary alloc"),
    ({}, "sweep: there is nothing to vary"),
])
def test_what_cannot_be_varied(small, tmp_path, vary, message):
    with pytest.raises(SpecError, match=message):
        netsim.sweep_experiment(small, vary, folder=tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_a_date_to_vary_is_refused_by_the_key_that_it_is_put_in(small):
    with pytest.raises(SpecError, match=r"network\.capacity: .* must be a number or a string"):
        netsim.sweep_experiment(small, {"network.capacity": [datetime.date(2024, 1, 1)]})


def test_runs_that_are_the_same(small):
    with pytest.raises(InputError, match="two runs of the sweep are the same: allocator parrot, "
                                         "seed 3 and allocator parrot, seed 3"):
        netsim.sweep_experiment(small, {"allocator": ["parrot", "parrot:theta_max=0.9"]}, seeds=2)


@pytest.mark.parametrize(("seeds", "message"), [
    (0, "seeds must be a number from 1 to"), ([1, -1], "seeds: each must be a whole number"),
    ([], "seeds must be"), ([1, 1], "twice"), (10**12, "a number from 1 to 1,000,000, or a list")])
def test_wrong_seeds(small, seeds, message):
    with pytest.raises(InputError, match=message):
        netsim.sweep_experiment(small, GRID, seeds=seeds)


def keys(path, vary, **options):
    return [cell.key for cell in runs_of_experiment(*prepare(path, vary, 1, **options))]


def test_any_option_changes_the_key_and_a_description_does_not(small):
    base = keys(small, {"allocator": ["parrot"]})
    text = small.read_text()
    for change in ('observe_interval = "1ms"\n', "check = false\n", 'until = "1000s"\n',
                   'record = ["jobs"]\n'):
        small.write_text(change + text)
        assert keys(small, {"allocator": ["parrot"]}) != base, change
    small.write_text('description = "other words"\n' + text)
    assert keys(small, {"allocator": ["parrot"]}) == base


@pytest.mark.parametrize(("path", "kept"), [
    ("fabric/view.py", 0), ("allocators/parrot.py", 2), ("allocators/first.py", 2),
    ("schedulers/sjf_bco.py", 4)])
def test_the_key_changes_with_the_code_that_a_run_can_use(small, monkeypatch, path, kept):
    """Two runs of four are under Parrot, and two under LCCF; none has a scheduler."""
    before = keys(small, GRID)
    every = versions._modules()
    edited = {**every, path: every[path]._replace(digest="another")}
    monkeypatch.setattr(versions, "_modules", lambda: edited)
    assert len(set(keys(small, GRID)) & set(before)) == kept


def test_runs_of_other_code_are_made_again(small, tmp_path, monkeypatch):
    """The same call goes on after an edit: runs that cannot depend on it are kept."""
    netsim.sweep_experiment(small, GRID, folder=tmp_path / "s")
    every = versions._modules()
    path = "allocators/parrot.py"
    edited = {**every, path: every[path]._replace(digest="another")}
    monkeypatch.setattr(versions, "_modules", lambda: edited)
    told = []
    with pytest.warns(NetsimWarning, match="2 of its 4 runs are not in this one, or code has ch"):
        netsim.sweep_experiment(small, GRID, folder=tmp_path / "s",
                                progress=lambda *numbers: told.append(numbers))
    assert told[0][0] == 3
    assert told[-1] == (4, 0, 4)


#: A module of the user's own, with something of each kind.
MINE = """
import netsim
from netsim.cluster import Contention

class Shares(netsim.Allocator):
    def allocate(self, view):
        return netsim.Allocation(weights=1.0)

class Eager:
    def decide(self, view):
        return []

class Last:
    def scope(self, cluster, job, load):
        return range(cluster.total)
    def choose(self, cluster, job, candidates, load):
        return candidates[:job.ranks]

class Quick(Contention):
    pass

class Fan:
    def stages(self, ranks, nbytes, rng):
        return [netsim.Stage("fan", [(0, 1, nbytes)])]

def pair():
    return netsim.Workload([netsim.JobSpec(0, pattern="all-to-all", ranks=2, nbytes=1e6)])

def hosts():
    return netsim.big_switch(128, 1e6)
"""

RING = {"format": "ring-jobs", "mix": {"2": 1}, "length": "25MB", "iterations": [2, 4]}
ON_NETWORK = {"network": {"kind": "big-switch", "hosts": 128}, "workload": {"format": "synthetic"}}
ON_CLUSTER = {"cluster": {"servers": 3, "gpus": 2}, "workload": RING}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / f"mine_{tmp_path.name}.py"
    path.write_text(MINE)
    return path


def kept(path, key):
    """Whether the key of a run outlives an edit of a comment, and of a constant in a module."""
    before = key()
    path.write_text(f'"""What it is for."""\n{MINE}# a comment\n')
    commented = key()
    path.write_text(MINE.replace("1.0", "2.0"))
    return commented == before, key() == before


@pytest.mark.parametrize("given", [
    ON_NETWORK | {"allocator": "Shares"}, ON_CLUSTER | {"scheduler": "Eager"},
    ON_CLUSTER | {"placement": "Last"}, ON_CLUSTER | {"execution": "Quick:alpha=0.5"},
    ON_NETWORK | {"workload": {"format": "synthetic", "pattern": "Fan"}},
    ON_NETWORK | {"workload": {"format": "pair"}}, ON_NETWORK | {"network": {"kind": "hosts"}}])
def test_code_of_one_s_own_of_every_kind_counts(given, mine):
    """A comment throws nothing away, a constant does: in an experiment, by name."""
    own = {"Shares", "Eager", "Last", "Quick:alpha=0.5", "Fan", "pair", "hosts"}

    def named(value):
        if isinstance(value, dict):
            return {name: named(each) for name, each in value.items()}
        return f"{mine.stem}:{value}" if isinstance(value, str) and value in own else value

    assert kept(mine, lambda: runs_of_experiment(Draft(named(given)), SweepTable())[0].key) == (
        True, False)


@pytest.mark.parametrize("given", [
    {"allocator": "Shares"}, {"scheduler": "Eager"},
    {"workload": "Fan"}, {"file": 'format = "MINE:pair"'},
    {"file": 'format = "synthetic"\npattern = "MINE:Fan"'}])
def test_code_of_one_s_own_counts_in_a_call_too(given, mine, tmp_path):
    """Objects of its classes, and names in the files of the call."""
    own = importlib.import_module(mine.stem)
    settings = {"network": netsim.big_switch(2, 1e6), "workload": own.pair(),
                "allocator": "maxmin"}
    if "scheduler" in given:
        settings["network"] = netsim.Cluster(gpus=[1, 1], nic=1e6)
        settings["workload"] = [JobSpec(0, pattern="ring-all-reduce", ranks=2, nbytes=1e6)]
    if "workload" in given:
        settings["workload"] = Workload([JobSpec(0, pattern=own.Fan(), ranks=2, nbytes=1e6)])
    if "file" in given:
        path = tmp_path / "jobs.toml"
        path.write_text(given["file"].replace("MINE", mine.stem))
        settings |= {"network": netsim.big_switch(128), "workload": str(path)}
    settings |= {name: getattr(own, value)() for name, value in given.items()
                 if name in ("allocator", "scheduler")}
    assert kept(mine, lambda: runs_of_calls(settings, {}, [0])[0].key) == (True, False)


def test_a_comparison_makes_no_keys(monkeypatch):
    """They take the time of reading all of netsim, and a policy that cannot be sent has none."""
    monkeypatch.setattr("netsim.studies.grid.version_of_run",
                        lambda *_: pytest.fail("made a key"))
    assert list(netsim.compare("parrot-fig2", "parrot-fig2", ["lccf"]).results) == ["lccf"]


# --- calls ---------------------------------------------------------------------------------


def test_lists_of_a_call_are_varied():
    net = netsim.big_switch(2, 1e6)
    jobs = Workload([JobSpec(0, stages=[Stage("c", [(0, 1, 2e6)])], hosts=[0, 1])], name="two")
    found = netsim.sweep({"slow": net, "fast": netsim.big_switch(2, 2e6)}, jobs,
                         allocator=["maxmin", "sebf"], seed=range(2), record=["jobs"])
    assert found.columns == ("network", "allocator")
    assert found.table[["network", "allocator", "seed", "jct_total_s"]].to_numpy().tolist() == [
        [label, policy, seed, 2 / rate] for label, rate in (("slow", 1), ("fast", 2))
        for policy in ("maxmin", "sebf") for seed in (0, 1)]


def test_a_workload_by_name_is_drawn_for_each_seed():
    found = netsim.sweep("big-switch-128-10g", "parrot-60", allocator=["parrot", "lccf"],
                         seed=[1, 2])
    assert found.table.groupby("seed")["bytes"].nunique().tolist() == [1, 1]
    assert found.table["bytes"].nunique() == 2


def test_wrong_calls():
    with pytest.raises(InputError, match="allocator: there are no values"):
        netsim.sweep("parrot-fig2", "parrot-fig2", allocator=[])
    with pytest.raises(InputError, match="interval: two of the values have one label, '1ms'"):
        netsim.sweep("parrot-fig2", "parrot-fig2", observe_interval=["1ms", "1ms"])
    with pytest.raises(InputError, match="seeds"):
        netsim.sweep("parrot-fig2", "parrot-fig2", seed=[])
    with pytest.raises(InputError, match="workers must be a whole number of at least 1"):
        netsim.sweep("parrot-fig2", "parrot-fig2", seed=[1, 2], workers=0)
    with pytest.raises(UnknownNameError, match="'observe'"):
        netsim.sweep("parrot-fig2", "parrot-fig2", observe=[1, 2])
    with pytest.raises(UnitError, match="observe_interval"):
        netsim.sweep("parrot-fig2", "parrot-fig2", observe_interval=["1ms", "soon"])
    with pytest.raises(UnitError, match="until must be greater than 0"):
        netsim.sweep("parrot-fig2", "parrot-fig2", until=["1s", 0])
    with pytest.raises(InputError, match="job 1 needs 8 distinct hosts"):
        netsim.sweep(netsim.big_switch(4), "parrot-60")


# --- what is kept --------------------------------------------------------------------------


def test_a_second_call_computes_only_what_is_missing(small, tmp_path):
    folder, told = tmp_path / "s", []
    netsim.sweep_experiment(small, GRID, seeds=2, folder=folder)
    before = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/*")}
    found = netsim.sweep_experiment(small, GRID, seeds=3, folder=folder,
                                    progress=lambda *counts: told.append(counts))
    assert told == [(9, 0, 12), (10, 0, 12), (11, 0, 12), (12, 0, 12)]
    assert len(found.table) == 12
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_what_is_read_back_is_the_same(small, tmp_path):
    found = netsim.sweep_experiment(small, GRID, seeds=2, folder=tmp_path / "s")
    again = netsim.load_sweep(tmp_path / "s")
    assert again.table.equals(found.table)
    assert again.means().equals(found.means())
    row, result = next(again.results(seed=4, **{"network.capacity": "4Gbps"}))
    assert row["allocator"] == "parrot"
    assert result.summary()["jct_total_s"] == row["jct_total_s"]
    pools = again.pooled("jct_s", ["allocator"])
    assert {name: len(values) for name, values in pools.items()} == {"parrot": 16, "lccf": 16}
    with pytest.raises(UnknownNameError, match="unknown column 'speed'"):
        next(again.results(speed=1))
    with pytest.raises(UnknownNameError, match="unknown varied key 'speed'"):
        again.ratios("speed")


def test_runs_are_selected_by_values_of_the_grid(small):
    found = netsim.sweep_experiment(small, GRID, seeds=2)
    assert found.where(allocator={"name": "lccf"}, seed=3).table["key"].tolist() == found.table[
        (found.table["allocator"] == "lccf") & (found.table["seed"] == 3)]["key"].tolist()
    for column, typo, choices in [("allocator", "lcf", "lccf, parrot"), ("seed", 5, "3, 4"),
                                  ("network.capacity", "5 Gbps", "1Gbps, 4Gbps")]:
        message = rf"unknown {column} {typo!r}.*; choose from: {choices}$"
        with pytest.raises(UnknownNameError, match=message):
            found.where(**{column: typo})
    for same in ("4 Gbps", "500MB/s", 5e8):
        assert found.where(**{"network.capacity": same}).table["network.capacity"].unique() == [
            "4Gbps"]
    with pytest.raises(UnknownNameError, match=r"unknown baseline '2Gbps'.*from: 1Gbps, 4Gbps"):
        found.ratios(of="network.capacity", baseline="2Gbps")


@pytest.mark.parametrize("damage", [
    lambda run: (run / "jobs.csv").write_bytes((run / "jobs.csv").read_bytes()[:-3]),
    lambda run: (run / "summary.json").write_text("{}"),
    lambda run: (run / "SHA256SUMS").unlink(),
    lambda run: (run / "SHA256SUMS").write_text(""),
    lambda run: (run / "coflows.csv").unlink(),
    lambda run: (run / "SHA256SUMS").write_text(
        f"{hashlib.sha256((run / 'jobs.csv').read_bytes()).hexdigest()}  ../{run.name}/jobs.csv\n"),
], ids=["table", "summary", "no sums", "empty sums", "missing", "sums of other folders"])
def test_a_damaged_run_is_computed_again(small, tmp_path, damage):
    folder = tmp_path / "s"
    before = netsim.sweep_experiment(small, GRID, seeds=1, folder=folder)
    kept = files(folder)
    damage(folder / "runs" / before.table["key"][2])
    assert netsim.load_sweep(folder).missing == 1
    found = netsim.sweep_experiment(small, GRID, seeds=1, folder=folder)
    assert found.missing == 0
    assert files(folder) == kept


@pytest.mark.parametrize(("before", "after", "said"), [
    ("8Mbps", "16Mbps", "the network that is given in Python is another one; give another folder"),
    ("8Mbps", None, "network was one made in Python, and is 'parrot-fig2'; give another folder"),
    (None, "8Mbps", "network was 'parrot-fig2', and is one made in Python; give another folder")])
def test_a_folder_of_another_network_is_refused_in_words(tmp_path, before, after, said):
    def sweep(capacity):
        network = netsim.big_switch(4, capacity) if capacity else "parrot-fig2"
        netsim.sweep(network, "parrot-fig2", allocator=["sebf"], folder=tmp_path / "s",
                     progress=False)

    sweep(before)
    with pytest.raises(InputError, match=said) as found:
        sweep(after)
    assert "resume=False in Python" in str(found.value)
    assert not re.search("[0-9a-f]{12}", str(found.value).removeprefix(str(tmp_path)))


def test_a_folder_of_another_file_is_refused_in_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for capacity in ("8Mbps", "16Mbps"):
        Path("net.toml").write_text(f'kind = "big-switch"\nhosts = 4\ncapacity = "{capacity}"\n')
        with (nullcontext() if capacity == "8Mbps" else pytest.raises(
                InputError, match=r"what network 'net\.toml' holds has changed; give another")):
            netsim.sweep("net.toml", "parrot-fig2", allocator=["sebf"], folder="s", progress=False)


def test_folders_of_something_else(small, tmp_path):
    folder = tmp_path / "s"
    netsim.sweep_experiment(small, GRID, folder=folder)
    other = netsim.load_experiment(small, ["workload.jobs=5"])
    with pytest.raises(InputError, match=r"holds a sweep of another experiment: workload was .*, "
                                         r"and is .*'jobs': 5.*--no-resume"):
        netsim.sweep_experiment(other, GRID, folder=folder)
    index = json.loads((folder / "sweep.json").read_text())
    (folder / "sweep.json").write_text(json.dumps(index | {"code": "0.0.1 older"}))
    assert netsim.sweep_experiment(small, GRID, folder=folder).code == versions.code_version()
    assert len(netsim.sweep_experiment(other, GRID, folder=folder, resume=False).table) == 4
    assert len(list(folder.glob("runs/*"))) == 4
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").touch()
    with pytest.raises(OutputError, match="holds something else than a sweep"):
        netsim.sweep_experiment(small, GRID, folder=tmp_path / "full")
    with pytest.raises(InputError, match=r"not a sweep: it has no sweep\.json"):
        netsim.load_sweep(tmp_path / "full")
    for text in ("{", '"text"', "{}", json.dumps(index | {"columns": 3}),
                 json.dumps(index | {"runs": [{"seed": 0}]}),
                 json.dumps(index | {"runs": [index["runs"][0] | {"key": "../runs"}]})):
        (folder / "sweep.json").write_text(text)
        with pytest.raises(InputError, match="not a readable sweep"):
            netsim.load_sweep(folder)


def test_tables_of_another_grid_do_not_outlive_it(small, tmp_path):
    folder = tmp_path / "s"
    netsim.sweep_experiment(small, GRID, seeds=2, folder=folder)
    (folder / "claims.csv").touch()

    def stop(*_):
        assert not list(folder.glob("*.csv"))
        raise KeyboardInterrupt

    (folder / "report.html").touch()
    with (pytest.raises(KeyboardInterrupt),
          pytest.warns(NetsimWarning, match=r"8 of its 8 runs .*claims\.csv\) are replaced")):
        netsim.sweep_experiment(small, GRID, seeds=[8], folder=folder, progress=stop)
    assert not list(folder.glob("*.csv"))
    assert (folder / "report.html").exists(), "a person made it"


def test_runs_of_other_folders_are_taken_over(small, tmp_path):
    """But not if all is to start afresh, and not if they are damaged."""
    first = netsim.sweep_experiment(small, GRID, folder=tmp_path / "a")
    damaged = first.table["key"][0]
    (tmp_path / "a" / "runs" / damaged / "jobs.csv").write_text("")
    (tmp_path / "b").mkdir()
    for resume, begun in ((True, 3), (False, 0)):
        told = []
        netsim.sweep_experiment(small, GRID, folder=tmp_path / f"to-{resume}", resume=resume,
                                reuse=[tmp_path / "a", tmp_path / "b", tmp_path / "nowhere"],
                                progress=lambda *counts, told=told: told.append(counts))
        assert told[0] == (begun + 1, 0, 4)
    assert (tmp_path / "to-True" / "runs.csv").read_bytes() == (
        tmp_path / "a" / "runs.csv").read_bytes()


def test_one_sweep_at_a_time_works_on_a_folder(small, tmp_path):
    def another(*_):
        with pytest.raises(InputError, match="another sweep is working on it"):
            netsim.sweep_experiment(small, GRID, folder=tmp_path / "s")

    assert netsim.sweep_experiment(small, GRID, folder=tmp_path / "s", progress=another
                                   ).missing == 0
    assert not list((tmp_path / "s" / "runs").glob(".*"))


def test_a_lock_that_a_killed_process_has_left_holds_nobody_up(small, tmp_path):
    (tmp_path / "s" / "runs").mkdir(parents=True)
    (tmp_path / "s" / "runs" / ".lock").touch()
    assert netsim.sweep_experiment(small, GRID, folder=tmp_path / "s").missing == 0


def test_other_files_in_the_folder_of_runs_are_left_alone(small, tmp_path):
    netsim.sweep_experiment(small, GRID, folder=tmp_path / "s")
    (tmp_path / "s" / "runs" / ".DS_Store").touch()
    netsim.sweep_experiment(small, GRID, folder=tmp_path / "s", resume=False)
    assert (tmp_path / "s" / "runs" / ".DS_Store").exists()


def test_a_file_that_changes_during_a_sweep_is_a_failure(tmp_path):
    path = tmp_path / "jobs.json"
    text = (ROOT / "workloads" / "parrot-fig2.json").read_text()
    path.write_text(text)
    cells = runs_of_calls({"network": "parrot-fig2", "workload": str(path)},
                           {"allocator": {"a": "parrot", "b": "lccf"}}, [0])
    sent = [cell.sent for cell in cells]
    path.write_text(text + " ")
    outcomes = dict(one_by_one(sent))
    assert [outcomes[place].error for place in (0, 1)] == [
        f"InputError: {path} has changed since the sweep began"] * 2


def test_a_process_with_other_code_does_not_do_a_run(small):
    task = runs_of_experiment(*prepare(small, GRID, 1))[0].sent
    other = replace(task, code="0.0.1 older", sources="0123")
    (_, outcome), (_, same) = one_by_one([other, replace(task, sources="0123")])
    assert "this process has other code than the sweep was prepared by" in outcome.error
    assert not isinstance(same, Failure), "files may differ in comments"


def test_one_process_or_two_same_bytes(small, tmp_path):
    for workers in (1, 2):
        netsim.sweep_experiment(small, GRID, seeds=3, workers=workers,
                                folder=tmp_path / str(workers))
    assert files(tmp_path / "1") == files(tmp_path / "2")
    assert "runs.csv" in files(tmp_path / "1")


# --- what goes wrong -----------------------------------------------------------------------

POLICIES = """
import os
import netsim

class Raises(netsim.Allocator):
    def allocate(self, view):
        raise ZeroDivisionError("no such luck")

class Dies(netsim.Allocator):
    def allocate(self, view):
        os.kill(os.getpid(), 9)

class Exits(netsim.Allocator):
    def allocate(self, view):
        raise SystemExit(7)

class Mute(netsim.Allocator):
    def allocate(self, view):
        raise Unspeakable

class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError

class Slowed(netsim.Allocator):  # no dataclass: what it was given it does not tell
    def __init__(self, part=1.0):
        self.part = part
    def allocate(self, view):
        return netsim.Allocation(shares=view.greedy(range(len(view)))  * self.part)
"""


@pytest.fixture
def policies(tmp_path, monkeypatch):
    (tmp_path / "bad_policies_of_sweeps.py").write_text(POLICIES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    return "bad_policies_of_sweeps"


@pytest.mark.parametrize("workers", but([1, 2], 1))
def test_a_run_that_fails_does_not_stop_the_others(small, tmp_path, policies, workers):
    grid = {"allocator": ["parrot", f"{policies}:Raises", "lccf"]}
    found = netsim.sweep_experiment(small, grid, seeds=2, workers=workers, folder=tmp_path / "s")
    assert found.table["allocator"].tolist() == ["parrot"] * 2 + ["lccf"] * 2
    assert found.failures[["allocator", "seed", "error"]].to_numpy().tolist() == [
        [f"{policies}:Raises", seed, "ZeroDivisionError: no such luck"] for seed in (3, 4)]
    failed = found.failures.iloc[0]
    assert "in allocate" in failed["details"]
    spec = netsim.load_experiment(tmp_path / "s" / "failed" / f"{failed['key']}.toml")
    assert spec.allocator.given == {"name": f"{policies}:Raises"}
    assert found.missing == 2
    assert repr(found) == "<Sweep over allocator: 4 runs, 2 failed>"
    assert netsim.load_sweep(tmp_path / "s").failures.equals(found.failures)
    with pytest.warns(NetsimWarning, match="4 of its 6 runs are not in this one"):
        again = netsim.sweep_experiment(small, {"allocator": ["parrot"]}, seeds=2,
                                        folder=tmp_path / "s")
    assert len(again.failures) == 0
    assert not (tmp_path / "s" / "failed").exists()


def test_a_sweep_without_runs_says_what_they_failed_with(policies):
    found = netsim.sweep("parrot-fig2", "parrot-fig2", allocator=f"{policies}:Raises")
    assert repr(found) == "<Sweep over seeds: 0 runs, 1 failed>"
    with pytest.raises(InputError, match="1 failed, the first with: ZeroDivisionError: no such"):
        found.means()


@exhaustive
def test_a_process_that_is_killed_takes_only_its_own_run_with_it(small, policies):
    """All four runs are in flight when the first process is killed."""
    grid = {"allocator": [f"{policies}:Dies", "lccf"]}
    found = netsim.sweep_experiment(small, grid, seeds=2, workers=2)
    assert found.failures[["allocator", "seed"]].to_numpy().tolist() == [
        [f"{policies}:Dies", 3], [f"{policies}:Dies", 4]]
    assert found.failures["error"].str.contains("was killed").all()
    assert found.table[["allocator", "seed"]].to_numpy().tolist() == [["lccf", 3], ["lccf", 4]]


def test_policies_that_leave_or_cannot_say_why(small, policies):
    grid = {"allocator": ["parrot", f"{policies}:Exits", f"{policies}:Mute"]}
    found = netsim.sweep_experiment(small, grid)
    assert found.table["allocator"].tolist() == ["parrot"]
    assert found.failures["error"].tolist() == [
        "SystemExit: 7", f"{policies}.Unspeakable: <exception str() failed>"]


def test_options_of_a_policy_that_does_not_tell_them(small, policies, tmp_path):
    """They are in its label, and in the key of a call."""
    import bad_policies_of_sweeps as own

    grid = {"allocator": [f"{policies}:Slowed", f"{policies}:Slowed:part=0.5"]}
    found = netsim.sweep_experiment(small, grid)
    assert found.table["allocator"].tolist() == [f"{policies}:Slowed",
                                                 f"{policies}:Slowed (part=0.5)"]
    totals = []
    for part in (1, 0.5):
        told = pytest.warns(NetsimWarning, match="1 of its 2") if totals else nullcontext()
        with told:
            totals.append(netsim.sweep("parrot-fig2", "parrot-fig2", folder=tmp_path / "s",
                                       allocator={"mine": own.Slowed(part), "other": "maxmin"}
                                       ).table["jct_total_s"][0])
    assert totals[1] == pytest.approx(2 * totals[0])
    with pytest.raises(InputError, match="two runs of the sweep would both be called"):
        refuse_twins(runs_of_calls(
            {"network": "parrot-fig2", "workload": "parrot-fig2"},
            {"allocator": _Twice({"a": own.Slowed(1), "b": own.Slowed(2)})}, [0]))


class _Twice(dict):
    """A mapping of which all labels are one."""

    def items(self):
        return [("same", value) for value in self.values()]


class _Unreadable:
    """Cannot be read by the process that it is sent to."""

    spec = None

    def __reduce__(self):
        return int, ("no number",)


def test_what_cannot_be_read_by_the_other_process_is_a_failure():
    outcomes = dict(pooled([_Unreadable()], 2))
    assert isinstance(outcomes[0], Failure)


SCRIPT = """
import netsim
if __name__ == "__main__":
    netsim.sweep_experiment({path!r}, {grid!r}, seeds=5, workers=2, folder={folder!r},
                            progress=lambda *told: print(*told, flush=True))
"""


@exhaustive
def test_a_script_needs_no_guard(small, tmp_path):
    """Its processes do not import it, so that it says what it does once."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace('if __name__ == "__main__":', "if print('begun') is None:")
                      .format(path=str(small), grid=GRID, folder=str(tmp_path / "s")))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["begun", *(f"{number} 0 20" for number in range(1, 21))]


def test_processes_that_cannot_be_started_are_no_fault_of_the_runs(small, monkeypatch):
    """What each begins with fails."""
    monkeypatch.setattr("netsim.studies.executors._begin_worker", int)  # of two arguments
    with pytest.raises(InputError, match="worker processes cannot be started here"):
        netsim.sweep_experiment(small, GRID, workers=2)


@exhaustive
def test_killed_at_any_moment_it_loses_the_runs_in_flight_only(small, tmp_path):
    """Killed after its first runs, it goes on from there; its processes end with it."""
    script = tmp_path / "script.py"
    folder = tmp_path / "killed"
    script.write_text(SCRIPT.format(path=str(small), grid=GRID, folder=str(folder)))
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True,
                               env=os.environ | {"PYTHONPATH": str(ROOT)})
    for _ in range(3):
        told = process.stdout.readline().split()
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=120)  # its processes hold the pipe as long as they live
    assert int(told[0]) >= 3
    there = netsim.load_sweep(folder)
    assert len(there.table) >= 3
    fresh = netsim.sweep_experiment(small, GRID, seeds=5, folder=tmp_path / "fresh")
    complete = fresh.table.set_index("key").drop(columns="wall_s")
    for key, row in there.table.set_index("key").drop(columns="wall_s").iterrows():
        assert row.equals(complete.loc[key].astype(row.dtype)), key
    found = netsim.sweep_experiment(small, GRID, seeds=5, folder=folder)
    assert found.missing == 0
    assert files(folder) == files(tmp_path / "fresh")
    assert not list(folder.glob("runs/.*"))


@exhaustive
def test_an_interruption_leaves_what_was_done(small, tmp_path):
    def interrupt(done, failed, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        netsim.sweep_experiment(small, GRID, seeds=2, workers=2, folder=tmp_path / "s",
                                progress=interrupt)
    assert len(netsim.load_sweep(tmp_path / "s").table) == 2


def test_numbers_are_written_exactly(small, tmp_path):
    found = netsim.sweep_experiment(small, GRID, seeds=2, folder=tmp_path / "s")
    with open(tmp_path / "s" / "runs.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["jct_total_s"]) for row in rows] == found.table["jct_total_s"].tolist()
    assert "wall_s" not in rows[0]


def test_a_draft_of_an_experiment_is_the_experiment(small):
    experiment = netsim.load_experiment(small)
    assert Draft.of(experiment).build().resolved() == experiment.resolved()


# --- the baseline --------------------------------------------------------------------------

#: Three allocators, the second and the third compared in the file.
THREE = {"allocator": ["parrot", "lccf", "sebf"]}


def named(path, compare):
    """The experiment with a table [compare] of its own."""
    path.write_text(SMALL + f"[compare]\n{compare}\n")
    return path


def test_ratios_are_to_the_baseline_that_the_experiment_names(small, tmp_path):
    """Those of `ratios` with the baseline given, in the tables on disk, too."""
    plain = netsim.sweep_experiment(small, THREE, seeds=2, folder=tmp_path / "plain")
    found = netsim.sweep_experiment(named(small, 'baseline = "lccf"'), THREE, seeds=2,
                                    folder=tmp_path / "s")
    assert (plain.baseline, found.baseline) == (None, "lccf")
    assert found.ratios().equals(plain.ratios(baseline="lccf"))
    assert found.ratios(baseline="parrot").equals(plain.ratios())
    with open(tmp_path / "s" / "ratios.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["allocator"], row["baseline"]) for row in rows] == [
        (policy, "lccf") for policy in ("parrot", "sebf")]
    assert netsim.load_sweep(tmp_path / "s").baseline == "lccf"
    same = {"runs.csv", "means.csv"}
    assert {name: text for name, text in files(tmp_path / "s").items() if name in same} == {
        name: text for name, text in files(tmp_path / "plain").items() if name in same}
    assert "baseline" not in json.loads((tmp_path / "plain" / "sweep.json").read_text())


def test_another_baseline_has_no_run_done_again(small, tmp_path):
    folder, told = tmp_path / "s", []
    netsim.sweep_experiment(small, THREE, folder=folder)
    with pytest.warns(NetsimWarning, match=r"its baseline was None\. Its tables \(runs\.csv, m"):
        found = netsim.sweep_experiment(named(small, 'baseline = "sebf"'), THREE, folder=folder,
                                        progress=lambda *counts: told.append(counts))
    assert (told, found.ratios()["baseline"].unique().tolist()) == ([], ["sebf"])


@pytest.mark.parametrize(("baseline", "label"), [
    ("varys", "sebf"), ("aalo:weights=strict", "aalo (weights=strict)")])
def test_a_baseline_is_named_as_the_allocator_was(small, baseline, label):
    grid = {"network.capacity": ["1Gbps", "4Gbps"], "allocator": [
        "lccf", "varys", "dclas:weights=strict"]}
    found = netsim.sweep_experiment(named(small, f'baseline = "{baseline}"'), grid)
    assert found.compared == "allocator"
    assert set(found.ratios()["baseline"]) == {label}
    by_capacity = found.ratios(of="network.capacity")
    assert set(by_capacity["baseline"]) == {"1Gbps"}


def test_a_baseline_that_is_not_varied_is_refused(small, tmp_path):
    message = r"small\.toml:\d+: compare\.baseline: unknown baseline 'fifo'; choose from: lccf, "
    with pytest.raises(SpecError, match=message):
        netsim.sweep_experiment(named(small, 'baseline = "fifo"'), THREE, folder=tmp_path / "s")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("vary", [
    {"observe_interval": ["1ms", "1s"]}, {"allocator.queues": [3, 10]}])
@pytest.mark.parametrize("compare", [
    'allocators = ["parrot", "lccf"]\nbaseline = "lccf"', 'baseline = "lccf"'])
def test_a_baseline_says_nothing_where_its_policies_are_not_varied(small, compare, vary):
    path = named(small, compare)
    path.write_text('allocator = "aalo"\n' + path.read_text())
    found = netsim.sweep_experiment(path, vary)
    first = next(iter(vary.values()))[0]
    assert (found.baseline, set(found.ratios()["baseline"])) == (None, {first})


def test_a_baseline_may_be_among_what_the_file_compares_only(small):
    path = named(small, 'allocators = ["sebf", "lccf"]\nbaseline = "sebf"')
    found = netsim.sweep_experiment(path, {"allocator": ["lccf", "parrot"]})
    assert (found.baseline, set(found.ratios()["baseline"])) == (None, {"lccf"})
    assert netsim.sweep_experiment(path, {"allocator": ["lccf", "sebf"]}).baseline == "sebf"


def test_a_baseline_whose_runs_have_failed_is_none(small, policies):
    experiment = named(small, f'baseline = "{policies}:Raises"')
    found = netsim.sweep_experiment(experiment, {"allocator": ["lccf", f"{policies}:Raises"]})
    with pytest.raises(InputError, match=f"there is no run of {policies}:Raises to compare with"):
        found.ratios()
    assert found.ratios_if_any() is None


@pytest.mark.parametrize(("baseline", "compared"), [("sjf", "scheduler"), ("lccf", "allocator")])
def test_of_two_policies_the_baseline_says_which_is_compared(baseline, compared):
    experiment = netsim.Experiment(
        cluster={"servers": 3, "gpus": 2}, execution="fabric", compare={"baseline": baseline},
        workload={"format": "ring-jobs", "mix": {"2": 3}, "length": "25MB", "iterations": [2, 4]})
    found = netsim.sweep_experiment(experiment, {"allocator": ["maxmin", "lccf"],
                                                 "scheduler": ["fifo", "sjf"]})
    assert (found.compared, found.missing) == (compared, 0)
    assert set(found.ratios()["baseline"]) == {baseline}


def test_an_interruption_before_the_first_run_has_ended_keeps_nothing(small, tmp_path, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("netsim.studies.sweep.one_by_one", interrupted)
    with pytest.raises(netsim.errors.Interrupted, match=r"^no run had ended$"):
        netsim.sweep_experiment(small, GRID, folder=tmp_path / "s")
