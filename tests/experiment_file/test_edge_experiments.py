"""Experiment files of jobs on edge-clouds: what they say, refuse, compare and sweep."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
import tomli_w
from click.testing import CliRunner

import netsim
from netsim.cli.main import main
from netsim.edge.files import read_edge_cloud, read_edge_jobs
from netsim.errors import SpecError
from netsim.experiment_file.catalogue import catalogue
from netsim.experiment_file.experiment import Experiment
from netsim.experiment_file.load import template, write_template
from netsim.studies.compare import compare_experiment
from tests.examples import ALL
from tests.offenders import check_each

CLOUD = {"kind": "edge-servers", "servers": 4, "types": 2}
BIG = {"kind": "big-switch", "hosts": 6, "capacity": "1Gbps"}
JOBS = {"format": "edge-jobs", "jobs": 8, "chunks": [2, 5], "span": "20h",
        "compute": ["0.0001h", "0.005h"]}


def of(**keys):
    return Experiment(**{"edge_cloud": CLOUD, "workload": JOBS, "record": ["jobs"]} | keys)


def listed(**options):
    return {"format": "edge-listed", "jobs": [{"id": 3, "compute_s": 1} | options]}


def problems(**keys):
    with pytest.raises(SpecError) as caught:
        of(**keys)
    return caught.value.problems


def test_a_file_gives_what_simulate_gives():
    experiment = of(scheduler="batch:mode=periodic", seed=3, epsilon=0.5)
    by_file = netsim.run(experiment)
    system = read_edge_cloud("edge-servers-100", servers=4, types=2, seed=3)
    jobs = read_edge_jobs("edge-jobs-300", system, seed=3,
                          **{key: JOBS[key] for key in ("jobs", "chunks", "span", "compute")})
    by_call = netsim.simulate(system, jobs, scheduler={"name": "batch", "mode": "periodic"},
                              seed=3, epsilon=0.5)
    assert by_file.jobs.equals(by_call.jobs)
    again = Experiment(**by_file.spec)
    assert again.resolved() == by_file.spec == experiment.resolved()
    assert netsim.run(again).jobs.equals(by_file.jobs)
    assert "allocator" not in by_file.spec
    assert by_file.spec["edge_cloud"]["ps"] == 1
    assert by_file.spec["workload"]["epochs"] == (20, 60)


def test_the_seed_draws_the_system_and_the_jobs():
    one, other = (of(seed=seed) for seed in (1, 2))
    assert one.target.workers != other.target.workers
    assert [job.compute_s for job in one.jobs] != [job.compute_s for job in other.jobs]
    kept = of(seed=2, edge_cloud=CLOUD | {"seed": 1}, workload=JOBS | {"seed": 1})
    assert kept.target.workers == one.target.workers
    assert [job.compute_s for job in kept.jobs] == [job.compute_s for job in one.jobs]


@pytest.mark.parametrize("ps", [{"1": 3, "4": 1}, [1, 0, 4, 1]])
def test_numbers_of_parameter_servers(ps):
    """Drawn or given; the resolved experiment says the same, and the table of servers has them."""
    experiment = of(edge_cloud=CLOUD | {"ps": ps}, record=["jobs", "servers"])
    found = netsim.run(experiment)
    assert found.servers["ps"].tolist() == [len(each) for each in experiment.target.ps]
    assert set(found.servers["ps"]) <= {*map(int, ps)}
    again = netsim.run(Experiment(**found.spec))
    assert again.servers.equals(found.servers)


def test_listed_ones_and_storage():
    chunk = {"chunks": 4, "compute_s": "1h", "chunk_bytes": "1GB", "cloud_upload_s": "9h"}
    found = netsim.run(of(
        edge_cloud={"kind": "edge-listed", "workers": [["gpu"] * 4], "storage": "3GB"},
        workload={"format": "edge-listed", "jobs": [{"worker_type": "gpu"} | chunk]}))
    assert found.jobs["cloud_chunks"].tolist() == [1]
    assert found.servers["peak_bytes"].tolist() == [3e9]


def test_the_lp_bound(tmp_path):
    pytest.importorskip("scipy")
    experiment = of(lp_bound="1h", compare={"schedulers": ["a-online", "cloud-only"]})
    found = netsim.run(experiment)
    bound = netsim.lp_bound(experiment.target, experiment.jobs, slot="1h")
    summary = found.summary()
    assert summary["lp_bound_s"] == bound.lp_s
    assert summary["ratio_paper"] == bound.ratio_paper(summary["jct_total_s"])
    assert 1 <= summary["ratio"] == bound.ratio(summary["jct_total_s"])
    found.save(tmp_path / "r")
    assert netsim.load_result(tmp_path / "r").summary() == summary
    for result in compare_experiment(experiment).results.values():
        assert result.summary()["jct_bound_s"] == bound.jct_s


#: Keys of an experiment, and how what is wrong with them begins.
WRONG = [
    ({"edge_cloud": {"kind": "edge-servers", "servers": -1}},
     "edge_cloud.servers: servers must be a whole number"),
    ({"edge_cloud": CLOUD | {"server": 1}}, "edge_cloud.server: unknown option of edge-cloud"),
    ({"edge_cloud": CLOUD | {"storage": "3XB"}}, "edge_cloud.storage: "),
    ({"edge_cloud": {"name": "edge-servers-10"}}, "edge_cloud.name: unknown edge-cloud"),
    ({"edge_cloud": {}}, "edge_cloud: give the name of a ready-made edge-cloud"),
    ({"workload": JOBS | {"epochs": [3, 2]}}, "workload.epochs: epochs: the least, 3, is more"),
    ({"workload": JOBS | {"epoch": 2}}, "workload.epoch: unknown option of format 'edge-jobs'"),
    ({"workload": {"name": "parrot-60"}}, "workload: these are no jobs of an edge-cloud"),
    ({"workload": {"name": "edge-jobs"}}, "workload.name: unknown workload 'edge-jobs'"),
    ({"edge_cloud": CLOUD | {"cloud": False}, "workload": JOBS | {"types": ["tpu"]}},
     "workload.types: job 5 needs workers of type 'tpu'; there is no cloud"),
    ({"scheduler": "ff"}, "scheduler: scheduler 'ff' needs a cluster: 'edge-cloud' is an edge"),
    ({"scheduler": "a-onlin"}, "scheduler.name: unknown scheduler 'a-onlin' (did you mean"),
    ({"scheduler": "batch:mode=never"}, "scheduler.mode: "),
    ({"compare": {"schedulers": ["a-online", "ff"]}},
     "compare.schedulers.1: scheduler 'ff' needs a cluster: 'edge-cloud' is an edge-cloud"),
    ({"compare": {"allocators": ["maxmin"]}}, "compare.allocators: for transport 'fabric'"),
    ({"transport": "teleport"}, "transport.name: unknown transport 'teleport'"),
    ({"epsilon": -0.5}, "epsilon: "), ({"lp_bound": 0}, "lp_bound: "),
    ({"placement": "random"}, "placement: for jobs on a cluster; on an edge-cloud the scheduler"),
    ({"execution": "fabric"}, "execution: for jobs on a cluster"),
    ({"network": BIG}, "network: for transport 'fabric'; with 'constant' delays and rates are"),
    ({"network": BIG | {"latency": "1us"}}, "network: for transport 'fabric'; with 'constant'"),
    ({"network": BIG | {"latency": "1us"}, "transport": "fabric"},
     "network: edge-cloud 'edge-cloud': network 'big-switch' has latency or overhead, which only "),
    ({"network": {"name": "parrot-fig2"}},
     "network: edge-cloud 'edge-cloud': network 'parrot-fig2' has 2 hosts; it needs one"),
    ({"cluster": {"servers": 2}}, "cluster: an edge-cloud has none"),
    ({"events": [{"at": 1, "link": 0, "capacity": 0}]}, "events: for transport 'fabric'"),
    ({"events": [{"at": 1, "link": 99, "capacity": 0}], "transport": "fabric"},
     "events.0.link: network 'edge-cloud' has no link 99; it has 12, such as 'egress-0'"),
    ({"allocator": "parrot"}, "allocator: for transport 'fabric'"),
    ({"record": ["jobs", "links"]}, "record.links: for transport 'fabric'; with 'constant'"),
    ({"record": ["decisions"]}, "record.decisions: for transport 'fabric'"),
    ({"observe_interval": "1s"}, "observe_interval: for transport 'fabric'"),
    ({"transport": "fabric:mode=exact:preemption=drop", "scheduler": "srtf"},
     "scheduler: scheduler 'srtf' needs a transport of whole jobs: preemption 'drop' is for "),
    ({"transport": "fabric:mode=sync:preemption=finish",
      "compare": {"schedulers": ["a-online", "batch"]}},
     "compare.schedulers.1: scheduler 'batch' needs a transport of whole jobs: preemption 'fin"),
    ({"transport": "fabric:modes=exact"}, "transport.modes: unknown option of transport 'fabric'"),
    ({"until": "0s"}, "until: time must be greater than 0"),
    ({"record": ["worker"]}, "record: unknown record 'worker' (did you mean 'workers'?)"),
    ({"workload": {"format": "edge-job"}},
     "workload.format: unknown format of an edge-cloud's jobs 'edge-job' (did you mean "
     "'edge-jobs'?); choose from: edge-jobs, edge-listed"),
    ({"workload": {"format": "poisson"}},
     "workload.format: unknown format of an edge-cloud's jobs 'poisson'; choose from: edge-jobs, "
     "edge-listed"),
    ({"workload": {"name": "edge-jobs-30"}},
     "workload.name: unknown workload 'edge-jobs-30' (did you mean 'edge-jobs-300'?); choose from: "
     "edge-jobs-300, edge-jobs-300-short"),
    ({"workload": {"format": "synthetic"}}, "workload: these are no jobs of an edge-cloud"),
    ({"workload": JOBS | {"system": 3}}, "workload.system: unknown option of format 'edge-jobs'"),
    ({"edge_cloud": {"kind": "edge-listed", "workers": [["a"], [1.5]]}},
     "edge_cloud.workers: edge-cloud 'edge-cloud': workers of server 1 must be a list of types, "
     "each a name or a number, but holds 1.5"),
    ({"workload": listed(site=7), "transport": "fabric"},
     "workload: transport 'fabric' needs sites of the network: job 3: site: there is no site "
     "7: network 'edge-cloud' has 1 hosts beside those of 4 servers and the cloud, so that "
     "site must be from 0 to 0"),
    ({"workload": JOBS | {"types": ["tpu"]}, "scheduler": "srtf"},
     "workload: scheduler 'srtf' needs edge workers: job 5 needs workers of type 'tpu'; the "
     "types of the edge are"),
    ({"workload": JOBS | {"types": ["tpu"]}, "seed": 3,
      "compare": {"schedulers": ["a-online", "tiresias-l"]}},
     "workload: scheduler 'tiresias-l' needs edge workers: job 4 needs workers of type "
     "'tpu'; the types of the edge are"),
    ({"workload": listed(chunks=4_000_000_000)},
     "workload.jobs: job 3: chunks must be a whole number from 1 to 10,000,000, not 4000000000"),
]


def test_what_is_wrong_is_said_with_its_key():
    def is_said(given):
        keys, problem = given
        found = problems(**keys)
        assert len(found) == 1
        assert found[0].startswith(problem)

    check_each(is_said, WRONG)


@pytest.mark.parametrize(("key", "text", "problem"), [
    ("edge_cloud", 'kind = "edge-servers"\nseed = 5', "seed must not be in a file, but is 5: give "
     "it when the file is read, as seed=5 to netsim.read_edge_cloud, or in [edge_cloud] of an"),
    ("workload", 'format = "edge-jobs"\nseed = 5', "seed must not be in a file, but is 5: give "
     "it when the file is read, as seed=5 to netsim.read_edge_jobs, or in [workload] of an"),
    ("edge_cloud", "[kind]\na = 1", "unknown kind of an edge-cloud {'a': 1}; choose from: edge-"),
    ("workload", 'format = ["edge-jobs"]', "unknown format of an edge-cloud's jobs ['edge-jobs']"),
    ("workload", 'format = "edge-job"', "unknown format of an edge-cloud's jobs 'edge-job'"),
    ("edge_cloud", 'kind = "edge-listed"\nworkers = [["a"]]\nps = [[1.5]]',
     "edge-cloud 'mine': ps of server 0 must be a list of types, each a name or a number, but hol"),
    ("workload", 'format = "edge-listed"\n[[jobs]]\ncompute_s = 1\nworker_type = 1.5',
     "job 0: worker_type must be a name or a number, not 1.5"),
    ("workload", 'format = "edge-jobs"\nchunks = [4000000000]',
     "job 0: chunks must be a whole number from 1 to 10,000,000, not 4000000000"),
])
@pytest.mark.parametrize("options", [{}, {"seed": 1}])
def test_what_is_wrong_in_a_file_is_said_with_the_file(key, text, problem, options, tmp_path):
    """Of the experiment, the key is that of the file."""
    path = tmp_path / "mine.toml"
    path.write_text(text)
    found = problems(transport="fabric", **{key: {"file": str(path)} | options})
    assert len(found) == 1
    assert found[0].startswith(f"{key}.file: {path}: {problem}")


def test_links_are_shared_under_the_fabric():
    """By file as by call; and on a network of one's own, that of `edge_links` and `wan`."""
    event = {"at": "10h", "link": "egress-5", "capacity": "10Mbps"}
    given = {"transport": "fabric:mode=fluid", "allocator": "sebf", "observe_interval": "1s",
             "events": [event], "record": ["jobs", "links"], "seed": 3}
    by_file = netsim.run(of(network=BIG, **given))
    narrow = of(edge_cloud=CLOUD | {"edge_links": "1Gbps", "wan": "1Gbps"}, seed=3)
    by_call = netsim.simulate(narrow.target, narrow.jobs, **given)
    # The site's port, which is as wide as all others there, is as narrow as one of them here.
    wide = narrow.target.network.capacity.copy()
    assert wide[5] == 5 * wide[4] == wide[:5].sum()
    assert by_file.links["link"].isin(narrow.target.network.link_names).all()
    assert by_file.summary()["jct_total_s"] >= by_call.summary()["jct_total_s"] * (1 - 1e-9)
    again = Experiment(**by_file.spec)
    assert again.resolved() == by_file.spec
    assert by_file.spec["transport"] == of(transport="fabric").resolved()["transport"]
    assert netsim.run(again).jobs.equals(by_file.jobs)
    assert by_file.run["allocator"]["name"] == "sebf"
    assert by_file.run["execution"]["mode"] == "fluid"


def test_allocators_are_compared_under_the_fabric():
    found = compare_experiment(of(
        edge_cloud=CLOUD | {"edge_links": "200Mbps", "wan": "100Mbps"}, transport="fabric",
        compare={"allocators": ["maxmin", "sebf"]}))
    totals = [result.summary()["jct_total_s"] for result in found.results.values()]
    assert len(totals) == 2
    assert totals[0] != totals[1]


def test_what_is_of_edge_clouds_needs_one():
    base = {"network": {"name": "parrot-fig2"}, "workload": {"name": "parrot-fig2"}}
    for name, value in (("epsilon", 0.5), ("transport", "constant"), ("lp_bound", "1h")):
        with pytest.raises(SpecError, match=f"{name}: for jobs on an edge-cloud, \\[edge_cl"):
            Experiment(**base, **{name: value})
    with pytest.raises(SpecError, match="workload: these are jobs of an edge-cloud; there is no"):
        Experiment(**base | {"workload": JOBS})
    with pytest.raises(SpecError, match="scheduler: scheduler 'a-online' needs an edge-cloud: 'c"):
        Experiment(cluster={"servers": 4}, workload={"format": "ring-jobs"}, scheduler="a-online")


def test_sweeps_draw_systems_and_jobs_by_the_seed():
    found = netsim.sweep_experiment(of(), {
        "edge_cloud.servers": [3, 4], "scheduler": ["a-online", "batch:mode=periodic"]}, seeds=2)
    assert found.missing == 0
    assert found.table["scheduler"].tolist() == (["a-online"] * 2
                                                 + ["batch (mode=periodic)"] * 2) * 2
    for row, result in found.results():
        alone = netsim.run(of(edge_cloud=CLOUD | {"servers": row["edge_cloud.servers"]},
                              seed=row["seed"], scheduler=result.run["scheduler"]))
        assert alone.jobs.equals(result.jobs)
    with pytest.raises(SpecError, match=r"'edge_cloud.seed' cannot be varied: give seeds"):
        netsim.sweep_experiment(of(), {"edge_cloud.seed": [1, 2]})


def test_sweeps_and_comparisons_of_calls():
    experiment = of()
    schedulers = ["a-online", {"name": "batch", "mode": "periodic"}]
    found = netsim.sweep(experiment.target, experiment.jobs, scheduler=schedulers,
                         epsilon=[0, 0.5])
    assert found.missing == 0
    assert found.table["scheduler"].tolist() == ["a-online"] * 2 + ["batch (mode=periodic)"] * 2
    compared = netsim.compare(experiment.target, experiment.jobs, schedulers=schedulers)
    np.testing.assert_array_equal(
        found.table["jct_total_s"][::2],
        [result.summary()["jct_total_s"] for result in compared.results.values()])


def test_pictures_that_cannot_be_are_known_before_the_runs(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text('edge_cloud.name = "edge-servers-100"\nworkload.name = "edge-jobs-300"\n'
                    'compare.schedulers = ["a-online", "cloud-only"]\n')
    done = CliRunner().invoke(main, ["compare", str(path), "--out", str(tmp_path / "out"),
                                     "--plot", f"slowdown={tmp_path}/a.png"])
    assert done.exit_code == 2
    assert ("the plot 'slowdown' needs coflows: a run on an edge-cloud has none; choose from: "
            "bars, cdf (of jct), timeline") in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_template_runs_and_what_it_comments_out_is_accepted(tmp_path):
    path = write_template(tmp_path / "e.toml", "edge")
    experiment = netsim.load_experiment(path)
    assert len(experiment.jobs) == 60
    assert len(compare_experiment(experiment).results) == 6
    shown = template("edge").replace("#kind", "# kind").replace("#format", "# format")
    for head in ("#workers", "#ps = [", "#jobs", "#transport = \"fabric", "#schedulers", "#file",
                 "#trace", "#limit", "#chunks_per_gpu"):
        shown = shown.replace(head, "# " + head[1:])
    lines = [line[1:] if line[:1] == "#" and (line[1:2].isalpha() or line[1:2] == "[") else line
             for line in shown.splitlines()]
    keys = tomllib.loads("\n".join(line for line in lines if not line.startswith("gang")
                                   and not line.startswith("types = [")))
    del keys["lp_bound"]
    assert keys["edge_cloud"]["storage"] == "200GB"
    for name in ("allocator", "observe_interval", "events"):
        del keys[name]
    with pytest.raises(netsim.SpecError, match="scheduler 'a-online' dispatches chunks"):
        Experiment(**keys | {"compare": {}})
    Experiment(**keys | {"scheduler": "srtf", "compare": {"schedulers": ["las", "tiresias-l"]}})
    with pytest.raises(netsim.SpecError, match=r"^preemption: on_fault is for jobs on a cluster"):
        Experiment(**keys | {"scheduler": "srtf", "preemption": {"on_fault": "checkpoint"},
                             "compare": {"schedulers": ["las"]}})
    del keys["preemption"]
    Experiment(**keys)
    on_links = tomllib.loads("\n".join(lines).replace('transport = "constant', "#").replace(
        '# transport = "fabric', 'transport = "fabric').replace("\nschedulers", "\n#").replace(
        "# schedulers", "schedulers"))
    assert len(Experiment(**{name: on_links[name] for name in (
        "edge_cloud", "workload", "transport", "allocator", "observe_interval", "events",
        "compare")}).compare.schedulers) == 3


def test_the_command_line(tmp_path, monkeypatch):
    def said_by(*arguments, code=0):
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == code, done.output
        return done.output

    monkeypatch.chdir(tmp_path)
    said_by("init", "--edge", "e.toml")
    said_by("init", "--edge", "--cluster", "f.toml", code=2)
    few = ["--set", "workload.jobs=5", "--set", "edge_cloud.servers=3", "--out"]
    said = said_by("run", "e.toml", *few, "r")
    assert "scheduler  a-online" in said
    assert "in the cloud; " in said
    assert "estimates" not in said
    alone = ("--set", 'compare.schedulers=["a-online"]', *few)
    said = said_by("run", "e.toml", "--set", "transport=fabric", *alone, "l")
    assert "\nestimates  delays 1 times and rates 0." in said
    said = said_by("run", "e.toml", "--set", "transport=fabric:mode=exakt", *alone, "l", code=2)
    assert "transport.mode: unknown mode 'exakt' (did you mean 'exact'?" in said
    said_by("compare", "e.toml", "--scheduler", "srtf,cloud-only", *few, "c")
    assert netsim.load_comparison(tmp_path / "c").what == "scheduler"
    assert "chunks" not in netsim.load_result(tmp_path / "r").recorded
    said_by("run", "e.toml", *few, "r", "--set", 'record=["jobs", "chunks"]')
    assert len(netsim.load_result(tmp_path / "r").chunks) > 5


def test_lists():
    assert catalogue("schedulers")["a-online"].startswith("on edge-clouds: A_online")
    assert catalogue("schedulers")["a-srpt"].startswith("on clusters: Adaptive shortest rem")
    assert catalogue("schedulers")["srtf"].startswith("Shortest remaining time first")
    assert catalogue("formats")["edge-jobs"].startswith("of edge-clouds: ")
    assert catalogue("topologies")["edge-servers-100"].startswith("edge-cloud: 100 edge")
    assert catalogue("workloads")["edge-jobs-300"].startswith("of edge-clouds: 300 jobs")
    assert catalogue("workloads")["a-online"].startswith("experiment: A_online")


SLOTS = {"slot": "1s", "span": "100s", "upload": ["1s", "5s"], "cloud_upload": ["5s", "6s"]}


@pytest.mark.parametrize(("more", "storage"), [({}, "500MB"), ({"chunk": "9GB"}, "5GB"),
                                               ({"gang": 2}, "500MB")], ids=str)
def test_storage_that_is_too_small_is_the_only_problem(more, storage):
    """Without `slot` other keys would be no multiples of it, which says nothing about storage."""
    found = problems(edge_cloud=CLOUD | {"storage": storage}, scheduler="srtf",
                     workload=JOBS | SLOTS | more)
    assert len(found) == 1
    assert found[0].startswith("edge_cloud.storage: scheduler 'srtf' needs edge storage")
    assert found[0].endswith("storage is too small")


def test_a_key_is_blamed_without_which_there_is_no_problem():
    found = problems(workload=JOBS | SLOTS | {"chunk": "-1GB"})
    assert [each.partition(": ")[0] for each in found] == ["workload.chunk"]
    found = problems(workload=JOBS | SLOTS | {"types": ["tpu"]}, scheduler="srtf")
    assert [each.partition(": ")[0] for each in found] == ["workload"]


RESTORES = {"preemption": {"restore_s": "10min"}, "edge_cloud": CLOUD | {"cloud": False},
            "workload": JOBS | {"gang": 2, "jobs": 16, "compute": ["0.001h", "0.05h"],
                                "upload": ["1h", "2h"]}}
FREE = {name: value for name, value in RESTORES.items() if name != "preemption"}


def test_options_of_preemption_are_for_those_compared_that_have_use_for_them():
    """Each runs as it does alone: whole jobs with the options, chunks without them."""
    given = of(**RESTORES, compare={"schedulers": ["srtf", "a-online"]})
    with pytest.warns(netsim.NetsimWarning, match="of whole jobs; a-online runs without"):
        compared = compare_experiment(given)
    whole, chunks = compared.results["srtf"], compared.results["a-online"]
    assert whole.jobs.equals(netsim.run(of(**RESTORES, scheduler="srtf")).jobs)
    assert chunks.jobs.equals(netsim.run(of(**FREE)).jobs)
    assert whole.jobs["preemptions"].any()
    assert whole.run["preemption"]["restore_s"] == 600
    assert "preemption" not in chunks.run
    for each in compared.results.values():
        assert netsim.run(Experiment(**each.spec)).jobs.equals(each.jobs)
    with pytest.warns(netsim.NetsimWarning, match="a-online-e, a-online run without"):
        called = netsim.compare(given.target, given.jobs, preemption={"restore_s": 600},
                                schedulers=["a-online-e", "srtf", "a-online"])
    assert called.results["srtf"].jobs.equals(whole.jobs)


def test_what_an_experiment_runs_alone_is_refused_only_if_it_runs():
    """Options that others have a use for are compared, though its own scheduler has none."""
    given = of(**RESTORES, scheduler="a-online", compare={"schedulers": ["srtf", "a-online"]})
    with pytest.warns(netsim.NetsimWarning, match="a-online runs without"):
        compared = compare_experiment(given)
    assert compared.results["srtf"].run["preemption"]["restore_s"] == 600
    with pytest.raises(netsim.InputError, match="scheduler 'a-online' dispatches chunks"):
        netsim.run(given)


def test_a_run_alone_does_not_look_at_what_is_compared(tmp_path):
    """SJF-BCO needs a cluster; it stops a comparison, and no run."""
    path = tmp_path / "edge.toml"
    path.write_text(tomli_w.dumps({"scheduler": "srtf", "edge_cloud": CLOUD, "workload": JOBS,
                                   "compare": {"schedulers": ["srtf", "sjf-bco"]}}))
    assert netsim.run(path).jobs.equals(netsim.run(of(scheduler="srtf")).jobs)
    with pytest.raises(SpecError, match=r"compare\.schedulers\.1: .*'sjf-bco' needs a cluster"):
        compare_experiment(path)


def test_runs_where_delays_are_given_have_no_decisions():
    """What counts as one is an allocation of the bandwidth of links; it was the number of jobs."""
    for scheduler in ("a-online", "srtf"):
        assert netsim.run(of(scheduler=scheduler)).summary()["decisions"] == 0
    assert netsim.run(of(edge_cloud=CLOUD | {"wan": "1Gbps", "edge_links": "1Gbps"},
                         transport="fabric")).summary()["decisions"] > 0


def test_options_of_preemption_are_for_those_swept_that_have_use_for_them():
    given = of(**RESTORES, scheduler="srtf",
               sweep={"vary": {"scheduler": ["srtf", "a-online"]}})
    with pytest.warns(netsim.NetsimWarning, match="a-online runs without them"):
        swept = netsim.sweep_experiment(given)
    totals = swept.table.set_index("scheduler")["jct_total_s"]
    for name, keys in {"srtf": RESTORES, "a-online": FREE}.items():
        alone = netsim.run(of(**keys, scheduler=name))
        assert totals[name] == alone.jobs["jct_s"].sum()


@pytest.mark.parametrize("compare", [{}, {"schedulers": ["a-online", "batch"]}])
def test_a_file_of_chunks_may_be_swept_over_schedulers_that_have_use_for_the_options(
        tmp_path, compare):
    path = tmp_path / "edge.toml"
    path.write_text(tomli_w.dumps({"scheduler": "a-online", "edge_cloud": CLOUD, "workload": JOBS,
                                   "preemption": {"restore_s": "10min"}, "compare": compare}))
    swept = netsim.sweep_experiment(path, {"scheduler": ["srtf", "fifo"],
                                           "preemption.restore_s": ["1s", "10min"]})
    assert (len(swept.table), len(swept.failures)) == (4, 0)
    with pytest.raises(SpecError, match=r"preemption: .* 'a-online' dispatches chunks"):
        netsim.sweep_experiment(path, {"preemption.restore_s": ["1s", "2s"]})


def test_options_of_preemption_for_which_none_has_use_are_refused():
    found = problems(**RESTORES, compare={"schedulers": ["a-online-e", "a-online"]})
    assert found == [
        "preemption: preemption is for jobs on a cluster and for whole jobs; scheduler "
        "'a-online-e' dispatches chunks, or plans jobs by itself"]
    assert problems(**RESTORES, scheduler="a-online")[0].startswith("preemption: ")
    given = of(**RESTORES, scheduler="srtf")
    for vary in ({"scheduler": ["a-online", "a-online-e"]},
                 {"scheduler": ["srtf", "a-online"], "preemption": [{"restore_s": 1}, {}]}):
        with pytest.raises(netsim.InputError, match="scheduler 'a-online' dispatches chunks"):
            netsim.sweep(given.target, given.jobs, **{"preemption": {"restore_s": 1}} | vary)


def test_what_an_experiment_on_an_edge_cloud_says_in_full_gives_the_same():
    """Of preemption, too: what jobs keep by default there is the part of an iteration."""
    result = netsim.run(of(**RESTORES, scheduler="srtf"))
    assert result.spec["preemption"]["keep"] == result.run["preemption"]["keep"] == "fraction"
    assert netsim.run(Experiment(**result.spec)).jobs.equals(result.jobs)


@pytest.mark.parametrize("transport", ["constant", "fabric", "fabric:mode=sync"])
@pytest.mark.parametrize("scheduler", ["srtf", "batch", "a-online"])
def test_runs_of_whole_jobs_and_of_chunks_are_printed(scheduler, transport, tmp_path, monkeypatch):
    """There is no chunk of a whole job that could take longer than it said."""
    monkeypatch.chdir(tmp_path)
    write_template("edge-cloud.toml", "edge")
    few = ["--set", f"workload.jobs={5 if ALL else 3}", "--set",
           f"workload.epochs={[2, 6] if ALL else [1, 2]}", "--set", "edge_cloud.servers=3"]
    done = CliRunner().invoke(main, [
        "run", "edge-cloud.toml", *few, "--set", f"scheduler={scheduler}",
        "--set", f"transport={transport}", "--out", "r"])
    assert done.exit_code == 0, done.output
    assert ("estimates" in done.output) == (scheduler == "a-online" and transport != "constant")
    assert "workers" in done.output
