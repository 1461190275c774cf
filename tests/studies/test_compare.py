"""Several allocators on one workload: labels, the table, and the folder."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

import netsim
from netsim.errors import InputError, OutputError, SpecError, UnknownNameError
from netsim.experiment_file.experiment import Experiment
from netsim.studies.compare import compare_experiment
from netsim.studies.comparison import Comparison
from netsim.studies.grid import label_in, label_of
from netsim.text import bare_names

FIG2 = ("parrot-fig2", "parrot-fig2")


@dataclass(frozen=True)
class Half(netsim.Allocator):
    """Shares max-min fairly a part of what there is."""

    part: float = 0.5

    def allocate(self, view: netsim.FabricView) -> netsim.Allocation:
        """Return the rates; see `Allocator.allocate`."""
        return netsim.Allocation(self.part * view.maxmin())


@pytest.fixture
def files() -> Callable[[Path], dict[str, bytes]]:
    """Return a function that reads all files below a folder."""
    return lambda folder: {str(path.relative_to(folder)): path.read_bytes()
                           for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(("policy", "label"), [
    ("parrot", "parrot"),
    ({"name": "parrot", "theta_max": 0.9}, "parrot"),
    ({"name": "parrot", "theta_max": 0.6, "work_conservation": "none"},
     "parrot (theta_max=0.6, work_conservation=none)"),
    ("maxmin", "maxmin"),
    ("netsim.allocators.first:LCCF", "lccf"),
    ("coflowsim-sebf", "coflowsim-sebf"),
    ({"name": "coflowsim-sebf", "key": "remaining"}, "coflowsim-sebf (key=remaining)"),
    ("equal-split", "equal-split"),
])
def test_labels_are_names_and_what_is_not_default(policy, label) -> None:
    assert label_of(policy) == label


def test_labels_of_allocators_of_one_s_own() -> None:
    assert label_of(Half) == f"{Half.__module__}:Half"
    assert label_of(Half(0.25)) == f"{Half.__module__}:Half (part=0.25)"


def test_the_table_of_the_example() -> None:
    """Fig. 2 of Parrot: totals 40.8889, 44, 44, 48.

    Alone, at 1 MB/s, the fullest ports make J1 take 6 + 12 s and J2 2 + 8 s.
    """
    compared = netsim.compare(*FIG2, ["parrot", "aalo-lbsf", "lccf", "maxmin"])
    table = compared.table.set_index("label")
    assert list(compared.table.columns) == [
        "label", "scheme", "work_conservation", "leftover", "decides_per", "jobs_finished",
        "jct_total_s",
        "over_lower_bound", "over_baseline", "jct_mean_s", "jct_p95_s", "cct_mean_s",
        "makespan_s", "decisions", "wall_s"]
    assert table["jct_total_s"].tolist() == pytest.approx([28 + 116 / 9, 44, 44, 48, 28])
    assert table["over_baseline"]["maxmin"] == pytest.approx(48 / (28 + 116 / 9))
    assert table["over_lower_bound"].tolist() == pytest.approx(
        [(28 + 116 / 9) / 28, 44 / 28, 44 / 28, 48 / 28, 1])
    assert table["jct_mean_s"].tolist() == pytest.approx([(28 + 116 / 9) / 2, 22, 22, 24, 14])
    assert table["makespan_s"]["parrot"] == pytest.approx(28)
    for label, result in compared.results.items():
        summary = result.summary()
        for column in ("jct_p95_s", "cct_mean_s", "makespan_s", "decisions", "wall_s"):
            assert table[column][label] == summary[column]
    assert table["decisions"].isna().tolist() == [False] * 4 + [True]
    assert math.isnan(table["wall_s"]["lower bound"])


def test_the_lower_bound_is_each_job_alone() -> None:
    """6 MB over one port at 1 MB/s take 6 s: one job two of them, the other one."""
    flows = [(0, 1, 6e6), (1, 0, 2e6)]
    jobs = netsim.Workload([
        netsim.JobSpec(0, stages=[netsim.Stage("a", flows)], iterations=2),
        netsim.JobSpec(1, arrival_s=1.0, stages=[netsim.Stage("a", flows)])])
    last = netsim.compare(netsim.big_switch(2, "1MB/s"), jobs, ["maxmin"]).table.iloc[-1]
    assert last["label"] == last["scheme"] == "lower bound"
    assert last["jct_total_s"] == 12 + 6
    assert last["makespan_s"] == 12
    assert last["cct_mean_s"] == 6
    assert last["over_baseline"] < 1 == last["over_lower_bound"]


def test_schemes_pair_with_work_conservation_and_without() -> None:
    table = netsim.compare(*FIG2, [
        "parrot:work_conservation=none", "parrot", "lccf:work_conservation=none",
        "parrot:work_conservation=none:theta_max=0.6", "maxmin"]).table
    assert dict(zip(table["label"], table["scheme"], strict=True)) == {
        "parrot (work_conservation=none)": "parrot",
        "parrot": "parrot",
        "lccf (work_conservation=none)": "lccf (work_conservation=none)",
        "parrot (theta_max=0.6, work_conservation=none)":
            "parrot (theta_max=0.6, work_conservation=none)",
        "maxmin": "maxmin",
        "lower bound": "lower bound"}
    assert table["work_conservation"].tolist() == ["none", "backfill", "none", "none", "", ""]


@pytest.mark.parametrize(("policy", "leftover", "decides_per"), [
    ("srpt", "greedy to coflows", "coflow"),
    ("srpt:work_conservation=maxmin", "maxmin to flows", "flow"),
    ("lccf:work_conservation=none", "none", "coflow"),
    ("aalo-lbsf:work_conservation=capped", "capped to coflows", "coflow"),
    ("parrot", "backfill to coflows", "coflow"),
    ("parrot:work_conservation=per_flow", "per_flow to flows", "coflow"),
    ("sebf", "maxmin to flows", "flow"),
    ("fifo:decisions=coflow:work_conservation=greedy", "greedy to flows", "coflow"),
    ("coflowsim-sebf", "coflowsim to flows", "coflow"),
    ("sebf:work_conservation=coflowsim", "coflowsim to flows", "flow"),
    ("maxmin", "maxmin to flows", "flow"),
    ("maxmin:decisions=coflow", "maxmin to flows", "coflow"),
    ("coflow-fair", "maxmin to flows", "flow"),
    ("srtf", "greedy to flows", "flow"),
    ("sincronia", "greedy to flows", "flow"),
    ("aalo", "maxmin to flows", "flow"),
    ("coflowsim-dark", "equal to flows", "coflow"),
    ("equal-split", "none", "flow"),
    ("ring-contention", "none", "flow"),
    ("reserved:shares=0.1", "none", "coflow"),
    ("varys-deadline", "maxmin to flows", "flow"),
    (Half(), "", "flow"),
])
def test_the_table_says_who_gets_what_is_left_and_when(policy, leftover, decides_per) -> None:
    table = netsim.compare(*FIG2, {"one": policy}).table
    assert table["leftover"].tolist() == [leftover, ""]
    assert table["decides_per"].tolist() == [decides_per, ""]


def test_an_allocator_of_one_s_own_may_say_who_gets_what_is_left() -> None:
    """When it decides shows in what it answers: a service is done anew at the end of each flow."""

    class Latest(netsim.Allocator):
        wakes_on = netsim.Event.COFLOW
        leftover = "greedy"

        def allocate(self, view: netsim.FabricView) -> netsim.Allocation:
            order = range(len(view))[::-1]
            return netsim.Allocation(service=netsim.PriorityService(order, backfill="greedy"))

    table = netsim.compare(*FIG2, {"one": Latest()}).table
    assert table[["leftover", "decides_per"]].loc[0].tolist() == ["greedy to flows", "flow"]


@pytest.mark.parametrize(("given", "leftover"), [
    ({"leftover": "maxmin"}, "maxmin to flows"), ({"leftover": "greedy"}, "greedy to flows"),
    ({}, "none")])
def test_who_gets_what_an_own_allocator_s_order_leaves_is_known_without_a_word(given, leftover):
    class Oldest(netsim.Allocator):
        def allocate(self, view: netsim.FabricView) -> netsim.Allocation:
            return netsim.Allocation(order=range(len(view)), **given)

    table = netsim.compare(*FIG2, {"one": Oldest}).table
    assert table["leftover"].tolist() == [leftover, ""]


def test_a_note_where_allocators_treat_what_is_left_in_different_ways() -> None:
    """Equal ways need none, nor does a policy of which nothing is known but its events."""
    assert netsim.compare(*FIG2, ["srpt", "fifo", "sebf"]).note == (
        "Runs allocate leftover bandwidth in different ways, which explains part of the "
        "differences: greedy to coflows, decided per coflow (srpt); maxmin to flows, decided "
        "per flow (fifo, sebf).")
    alike = ["srpt:work_conservation=maxmin", "fifo", "sebf", "maxmin"]
    assert netsim.compare(*FIG2, alike).note == ""
    assert netsim.compare(*FIG2, {"half": Half(), "fifo": "fifo"}).note == ""
    apart = {"half": Half(), "fifo": "fifo:decisions=coflow"}
    assert netsim.compare(*FIG2, apart).note.endswith(
        ": unknown, decided per flow (half); maxmin to flows, decided per coflow (fifo).")


def test_schedulers_that_share_no_links_have_no_such_columns() -> None:
    jobs = [netsim.JobSpec(0, pattern="ring-all-reduce", ranks=2, nbytes="1MB", compute_s=0.1)]
    cluster = netsim.Cluster(2, 1, nic="10Gbps")
    for execution, said in ((None, ""), ("fabric", "maxmin to flows")):
        compared = netsim.compare(cluster, jobs, schedulers=["fifo", "sjf"], execution=execution)
        assert compared.table["leftover"].tolist() == [said, said, ""]
        assert compared.note == ""


def test_jobs_that_did_not_finish_spoil_the_ratio_to_the_baseline() -> None:
    table = netsim.compare(*FIG2, ["parrot", "lccf"], until=14).table.set_index("label")
    assert table["jobs_finished"].tolist() == [1, 0, 2]
    assert table["over_baseline"].isna().all()
    assert table["over_lower_bound"]["parrot"] == pytest.approx(116 / 9 / 10)
    assert math.isnan(table["jct_mean_s"]["lccf"])


def test_ccts_that_are_not_recorded_are_missing() -> None:
    table = netsim.compare(*FIG2, ["parrot"], record=["jobs"]).table
    assert table["cct_mean_s"].isna().all()


def test_settings_reach_every_run() -> None:
    compared = netsim.compare(*FIG2, {"first": "parrot", "second": Half(0.25)}, seed=3,
                              observe_interval="300ms", record=["jobs", "decisions"])
    assert list(compared.results) == ["first", "second"]
    for result in compared.results.values():
        assert (result.run["seed"], result.run["observe_interval"]) == (3, 0.3)
        assert result.recorded == ("jobs", "decisions")
    assert compared.results["second"].run["allocator"]["part"] == 0.25


def test_progress_is_of_all_runs() -> None:
    calls: list[tuple[int, int]] = []
    netsim.compare(*FIG2, ["parrot", "lccf"], progress=lambda *call: calls.append(call))
    assert calls == sorted(calls)
    assert calls[-1] == (8, 8)
    assert (4, 8) in calls


@pytest.mark.parametrize(("allocators", "message"), [
    ([], "allocator: there are no values to vary it over"),
    ("parrot", "allocators must be a list or a mapping, not 'parrot'"),
    (["parrot", "parrot:theta_max=0.9"], "allocator: two of the values have one label, 'parrot'"),
    (["parrot", "parot"], "unknown allocator 'parot' (did you mean 'parrot'?)"),
    (["parrot", "lccf:theta_max=0.6"], "unknown option of allocator 'lccf' 'theta_max'"),
])
def test_what_cannot_be_compared(allocators, message, monkeypatch) -> None:
    """It is said before anything runs."""
    monkeypatch.setattr("netsim.studies.tasks.simulate_spec", lambda *_, **__: pytest.fail("ran"))
    with pytest.raises(InputError, match=re.escape(message)):
        netsim.compare(*FIG2, allocators)


# --- experiments and folders ----------------------------------------------------------------


def test_an_experiment_with_nothing_to_compare(tables) -> None:
    with pytest.raises(SpecError, match=r"compare\.allocators: is empty"):
        compare_experiment(Experiment(**tables))


def test_the_folder_has_a_result_per_allocator(tables, tmp_path, files) -> None:
    policies = ["parrot", {"name": "parrot", "work_conservation": "none"}, "lccf"]
    experiment = Experiment(**tables, seed=2, compare={"allocators": policies})
    compared = compare_experiment(experiment)
    folder = compared.save(tmp_path / "c")
    assert sorted(path.name for path in folder.iterdir()) == [
        "comparison.csv", "lccf", "parrot", "parrot-work_conservation=none", "spec.toml"]
    written = pd.read_csv(folder / "comparison.csv", keep_default_na=False, na_values={
        "decisions": [""]}, dtype={"decisions": "Int64"})
    pd.testing.assert_frame_equal(written, compared.table.drop(columns="wall_s"),
                                  check_exact=False, rtol=1e-14, check_dtype=False)
    for label, name in zip(compared.results, ("parrot", "parrot-work_conservation=none", "lccf"),
                           strict=True):
        loaded = netsim.load_result(folder / name)
        assert loaded.jobs.equals(compared.results[label].jobs)
        assert loaded.spec == compared.results[label].spec
    assert netsim.load_experiment(folder / "spec.toml").resolved() == compared.spec
    again = compare_experiment(folder / "spec.toml").save(tmp_path / "d")
    before, after = files(folder), files(again)
    assert {name: before[name] for name in before if not name.endswith(".json")} == {
        name: after[name] for name in after if not name.endswith(".json")}


def test_a_result_s_spec_runs_alone(tables, tmp_path, files) -> None:
    experiment = Experiment(**tables, compare={"allocators": ["parrot", "lccf"]})
    folder = compare_experiment(experiment).save(tmp_path / "c")
    alone = netsim.run(folder / "lccf" / "spec.toml").save(tmp_path / "alone")
    before, after = files(folder / "lccf"), files(alone)
    del before["summary.json"], after["summary.json"]
    assert before == after


def test_labels_that_make_one_name_get_folders_of_their_own(tmp_path) -> None:
    results = netsim.compare(*FIG2, {"a b": "parrot", "a/b": "lccf", "..": "maxmin"}).results
    folder = Comparison(results).save(tmp_path / "c")
    assert sorted(path.name for path in folder.iterdir()) == ["a-b", "a-b-2", "comparison.csv",
                                                              "run"]


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path, files) -> None:
    compared = netsim.compare(*FIG2, ["parrot"])
    compared.save(tmp_path / "c")
    compared.save(tmp_path / "c")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("x")
    with pytest.raises(OutputError, match="holds a file that is not a result"):
        compared.save(tmp_path / "mine")
    assert files(tmp_path / "mine") == {"notes": b"x"}


def test_unknown_names_are_unknown() -> None:
    with pytest.raises(UnknownNameError, match="unknown network 'nowhere'"):
        netsim.compare("nowhere", "parrot-fig2", ["parrot"])


@pytest.mark.parametrize(("baseline", "label"), [
    ("varys", "sebf"), ("aalo:weights=strict", "aalo (weights=strict)"), ("sebf", "sebf")])
def test_a_baseline_is_named_as_the_allocator_was(baseline, label) -> None:
    compared = netsim.compare(*FIG2, ["fifo", "varys", "dclas:weights=strict"], baseline=baseline)
    assert compared.baseline == label
    assert label not in set(compared.against(baseline)["label"])


#: Labels of what a notebook, a module, and netsim itself define.
LABELS = ["fifo", "__main__:Mine", "__main__:Mine (order=least)", f"{Half.__module__}:Half",
          f"{Half.__module__}:Half (part=0.25)"]


@pytest.mark.parametrize(("given", "label"), [
    ("Mine", LABELS[1]), ("__main__:Mine", LABELS[1]), ("Mine (order=least)", LABELS[2]),
    (Half, LABELS[3]), (Half(), LABELS[3]), (Half(0.25), LABELS[4]),
    ("Half", LABELS[3]), ("Half (part=0.25)", LABELS[4]),
    ({"name": LABELS[3], "part": 0.25}, LABELS[4]), (f"{LABELS[3]}:part=0.25", LABELS[4])])
def test_a_policy_is_found_by_each_of_its_names(given, label) -> None:
    assert label_in(given, LABELS) == label
    assert label_in(given, dict.fromkeys(LABELS)) == label


def test_a_text_that_is_a_label_is_that_label() -> None:
    """Also if it is the short name of another, or the name of another policy."""
    assert label_in("Mine", ["__main__:Mine", "Mine"]) == "Mine"
    assert label_in("varys", {"varys": "fifo", "sebf": "sebf"}) == "varys"


@pytest.mark.parametrize(("given", "labels"), [
    (Half(0.5), LABELS[:3]), (Half, ["Half"]), ("Half", [LABELS[3], "yours:Half"]),
    ("mine", LABELS),
    ("A (by=B)", ["__main__:A (by=B)", "A (by=__main__:B)"]), (3, LABELS), ({"part": 1}, LABELS)])
def test_other_names_are_unknown_and_short_ones_of_two_labels(given, labels) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown policy .* choose from: ") as caught:
        label_in(given, labels, "policy")
    assert caught.value.choices == sorted(labels)


def test_policies_of_modules_are_shown_without_these_and_found_so(tmp_path) -> None:
    whole = f"{Half.__module__}:Half"
    compared = netsim.compare(*FIG2, ["fifo", Half], baseline="Half")
    assert list(compared.results) == ["fifo", whole]
    assert compared["Half"] is compared[whole] is compared[Half]
    assert whole not in str(compared) + repr(compared) + repr(compared[Half])
    assert [text.get_text() for text in compared.plot("bars").get_yticklabels()] == ["fifo", "Half"]
    found = netsim.sweep(*FIG2, allocator=["fifo", Half], folder=tmp_path / "s", progress=False)
    assert set(found.where(allocator="Half").table["allocator"]) == {whole}
    assert set(found.ratios(baseline="Half")["baseline"]) == {whole}
    assert len(found["Half"]) == 1
    assert found.as_shown().grid["allocator"] == ["fifo", "Half"]
    assert whole not in found._repr_html_()
    assert whole in (tmp_path / "s" / "runs.csv").read_text()


def test_modules_are_shown_where_labels_would_be_the_same_without() -> None:
    labels = ["a:Own", "b:Own", "a:Other (by=b:Own)", "fifo"]
    assert list(bare_names(labels).values()) == ["a:Own", "b:Own", "Other (by=Own)", "fifo"]
    assert list(bare_names(["x:fifo", "fifo"]).values()) == ["x:fifo", "fifo"]
    results = dict.fromkeys(labels[:2], netsim.simulate(*FIG2))
    assert list(netsim.Comparison(results, baseline="b:Own").as_shown()) == labels[:2]


# --- printed -------------------------------------------------------------------------------


def test_printed_it_is_the_table_of_the_command_line() -> None:
    """The example of the Parrot paper in print."""
    compared = netsim.compare(*FIG2, ["parrot", "lccf:work_conservation=none"])
    lines = str(compared).splitlines()
    assert [line.split() for line in lines[:2]] == [
        ["total", "over", "over", "mean", "p95", "mean", "makespan"],
        ["allocator", "JCT", "(s)", "bound", "parrot", "JCT", "(s)", "JCT", "(s)", "CCT", "(s)",
         "(s)"]]
    assert lines[2].split()[:3] == ["parrot", "40.9", "1.46"]
    assert any(line.split()[:3] == ["lower", "bound", "28.0"] for line in lines)
    assert repr(compared) == "<Comparison of parrot, lccf (work_conservation=none)>"


@pytest.mark.parametrize("label", ["short", "a label of its own that is longer than the table"])
def test_what_is_printed_fits_80_columns_and_has_all_figures(label) -> None:
    """JCTs of 100,000 seconds; a label that does not fit is broken, and no figure is."""
    slow = netsim.big_switch(3, 1)
    jobs = netsim.Workload([netsim.JobSpec(number, hosts=[0, 1], stages=[
        netsim.Stage("c", [(0, 1, 5e4)])]) for number in range(2)])
    compared = netsim.compare(slow, jobs, {label: "parrot", "other": "lccf"}, baseline="other")
    lines = str(compared).splitlines()
    assert max(map(len, lines)) <= 80
    assert "100,000" in str(compared)
    assert "…" not in str(compared)
    assert label in " ".join(line[:30].strip() for line in lines).replace("  ", " ") or label == (
        "short")


# --- a sweep of one axis -------------------------------------------------------------------


def test_a_comparison_is_a_sweep_of_one_axis(tables) -> None:
    """The same labels and figures, by a call and by an experiment."""
    policies = ["lccf:work_conservation=none", {"name": "parrot", "theta_max": 0.6}, "sebf"]
    experiment = Experiment(**tables, seed=2, compare={"allocators": policies})
    for compared, swept in (
            (netsim.compare(*FIG2, policies, seed=2),
             netsim.sweep(*FIG2, allocator=policies, seed=2)),
            (compare_experiment(experiment),
             netsim.sweep_experiment(experiment, {"allocator": policies}))):
        assert swept.table["allocator"].tolist() == list(compared.results)
        for row, result in swept.results():
            other = compared.results[row["allocator"]]
            assert result.jobs.equals(other.jobs)
            assert result.spec == other.spec
            assert {**result.summary(), "wall_s": 0} == {**other.summary(), "wall_s": 0}


def test_the_bound_is_found_once_for_all_schedulers(monkeypatch) -> None:
    pytest.importorskip("scipy")
    asked: list[float] = []
    true = netsim.studies.run.lp_bound
    monkeypatch.setattr("netsim.studies.run.lp_bound",
                        lambda *given, slot: asked.append(slot) or true(*given, slot=slot))
    compare_experiment(Experiment(
        edge_cloud={"kind": "edge-servers", "servers": 4, "types": 2}, record=["jobs"],
        workload={"format": "edge-jobs", "jobs": 3, "chunks": [2, 3], "span": "20h",
                  "compute": ["0.0001h", "0.005h"]},
        lp_bound="1h", compare={"schedulers": ["a-online", "cloud-only"]}))
    assert asked == [3600.0]


def test_a_comparison_on_a_cluster_says_how_gpus_were_used() -> None:
    """Two rings of 1 s on 2 and 1 of 3 GPUs, at once; FIFO holds up none: 3 of 3 GPUs for 1 s."""
    jobs = [netsim.JobSpec(k, ranks=ranks, nbytes=0, compute_s=1, pattern="ring-all-reduce")
            for k, ranks in enumerate((2, 1))]
    compared = netsim.compare(netsim.Cluster(1, 3), jobs, schedulers=["fifo", "sjf"])
    assert compared.table["utilisation"].tolist()[:2] == pytest.approx([1, 1])
    assert compared.table["preemptions"].tolist()[:2] == [0, 0]
    assert "cloud_share" not in compared.table
    headings = str(compared).splitlines()[1].split()
    assert headings[-3:] == ["(s)", "use", "empted"]
    assert "CCT" not in headings


class OnGPUs:
    """One job at a time, on GPUs that are given."""

    chooses_gpus = True

    def __init__(self, *gpus):
        self.gpus = list(gpus)

    def decide(self, view):
        return [(job, self.gpus) for job in view.waiting[:1] if view.free[self.gpus].all()]


class Together(OnGPUs):
    """One job at a time, on the first two GPUs."""

    def __init__(self):
        super().__init__(0, 1)


def test_a_scheduler_may_be_given_as_its_class():
    cluster = netsim.Cluster(2, 2, nic="8Gbps")
    jobs = [netsim.JobSpec(job, pattern="ring-all-reduce", ranks=2, nbytes=1e9, compute_s=1)
            for job in range(2)]
    compared = netsim.compare(cluster, jobs, schedulers=["fifo", Together], baseline=Together,
                              execution="fabric")
    assert compared.baseline == f"{__name__}:Together"
    figures = compared.table.set_index("label")["jct_total_s"]
    assert figures[compared.baseline] == netsim.simulate(
        cluster, jobs, scheduler=Together(), execution="fabric").summary()["jct_total_s"]
    assert figures[compared.baseline] > figures["fifo"]


@pytest.mark.parametrize("order", [("spread", "packed"), ("packed", "spread")])
def test_the_lower_bound_holds_for_every_run(order):
    """It is that of the servers that jobs got, which may differ from run to run.

    Two GPUs exchange 1e9 bytes, half of them in each direction, and compute for 1 s. On two
    servers with 1e9 bytes/s that takes 1 + 0.5 s; on one, with 300e9 bytes/s, 1 + 0.5/300 s. Either
    job runs alone, and takes no more than its bound.
    """
    jobs = [netsim.JobSpec(0, pattern="all-to-all", ranks=2, nbytes=1e9, compute_s=1)]
    schedulers = {"spread": OnGPUs(0, 2), "packed": OnGPUs(0, 1)}
    compared = netsim.compare(netsim.Cluster(2, 2, nic="8Gbps"), jobs, execution="fabric",
                              schedulers={name: schedulers[name] for name in order},
                              baseline="spread")
    rows = compared.table.set_index("label")
    assert rows.loc["spread", "jct_total_s"] == pytest.approx(1.5)
    assert rows.loc["packed", "jct_total_s"] == pytest.approx(1 + 0.5 / 300)
    for column in ("jct_total_s", "jct_mean_s", "jct_p95_s", "makespan_s"):
        assert rows.loc["lower bound", column] == pytest.approx(1 + 0.5 / 300)
    assert rows["over_lower_bound"].tolist() == pytest.approx([1, 1, 1])
    assert rows.loc["lower bound", "cct_mean_s"] == pytest.approx(0.5)
    best = compared.against().query("`class` == 'all'").set_index("label")["jct_total_ratio"]
    assert best["lower bound"] == best["packed"] == pytest.approx((1 + 0.5 / 300) / 1.5)
