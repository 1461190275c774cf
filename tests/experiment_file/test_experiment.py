"""The experiment: what it accepts, what it refuses and where, what it resolves to."""

from __future__ import annotations

import json
import pickle
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import netsim
from netsim.errors import SpecError
from netsim.experiment_file.experiment import Experiment, default_folder, spec_hash
from tests.offenders import check_each

SYNTHETIC = {"format": "synthetic", "jobs": 4, "iterations": 1}


def problems(**keys: Any) -> list[str]:
    """Return the problems of keys that must be refused."""
    with pytest.raises(SpecError) as caught:
        Experiment(**keys)
    return caught.value.problems


def test_defaults_are_those_of_simulate(tables) -> None:
    experiment = Experiment(**tables)
    assert experiment.arguments == {"observe_interval": 0, "seed": 0, "until": None, "check": True,
                                    "record": ("jobs", "coflows"), "events": [],
                                    "epsilon": 0}


def test_quantities_are_in_base_units(tables) -> None:
    experiment = Experiment(**tables, observe_interval="10ms", until="2min", events=[
        {"at": "5ms", "link": 0, "capacity": "8Mbps"}, {"at": 2, "link": "egress-1",
                                                        "capacity": 0}])
    assert (experiment.observe_interval, experiment.until) == (0.01, 120)
    assert experiment.arguments["events"] == [
        {"at": 0.005, "link": 0, "capacity": 1e6}, {"at": 2, "link": "egress-1", "capacity": 0}]


#: Keys of an experiment, and how what is wrong with them begins.
WRONG = [
    ({"sed": 1}, "sed: unknown key 'sed' (did you mean 'seed'?); choose from: allocator, check,"),
    ({"seed": -1}, "seed: must be greater than or equal to 0, not -1"),
    ({"seed": "1"}, "seed: must be a valid integer, not '1'"),
    ({"seed": True}, "seed: must be a valid integer, not True"),
    ({"name": "a/b"}, "name: must have at most 100 letters, digits and _ . + -, because it "
                      "names a folder, not 'a/b'"),
    ({"name": "a" * 101}, "name: must have at most 100 letters"),
    ({"name": ".."}, "name: must have at most 100"),
    ({"observe_interval": "10mss"}, "observe_interval: time '10mss' has the unknown unit 'mss' "
                                    "(did you mean 10ms?); choose from: s, ms"),
    ({"observe_interval": -1}, "observe_interval: time must be at least 0, not -1"),
    ({"observe_interval": float("nan")}, "observe_interval: time must be finite, not nan"),
    ({"until": 0}, "until: time must be greater than 0, not 0"),
    ({"until": float("inf")}, "until: time must be finite, not inf"),
    ({"record": ["jobs", "flow"]}, "record: unknown record 'flow' (did you mean 'flows'?)"),
    ({"check": 1}, "check: must be a valid boolean, not 1"),
    ({"network": None}, "network: is required, unless there is a [cluster]"),
    ({"network": 3}, "network: must be a table, not 3"),
    ({"network": {}}, "network: give the name of a ready-made network, a file, or a kind"),
    ({"network": {"name": "parrot-fig"}},
     "network.name: unknown network 'parrot-fig' (did you mean 'parrot-fig2'?); choose from: big"),
    ({"network": {"kind": "big-swich", "hosts": 2}},
     "network.kind: unknown topology 'big-swich' (did you mean 'big-switch'?)"),
    ({"network": {"kind": "big-switch"}}, "network.kind: topology 'big-switch' needs: hosts"),
    ({"network": {"kind": "big-switch", "file": "x.toml"}}, "network.file: give either kind or"),
    ({"network": {"file": "nowhere.toml"}}, "network.file: nowhere.toml: no such file"),
    ({"network": {"name": "parrot-fig2", "capacity": "10Gbq"}},
     "network.capacity: "),
    ({"network": {"kind": "big-switch", "hosts": 2, "capacity": "0Gbps"}},
     "network.capacity: egress capacity must be greater than 0, not '0Gbps'"),
    ({"network": {"kind": "big-switch", "hosts": 2, "ingress": [1, -1]}},
     "network.ingress: ingress capacity of host 1 must be greater than 0, not -1"),
    ({"network": {"kind": "big-switch", "hosts": 2, "egress": float("inf")}},
     "network.egress: egress capacity must be finite, not inf"),
    ({"network": {"kind": "big-switch", "hosts": 0}},
     "network.hosts: hosts must be a whole number from 1 to 10,000,000, not 0"),
    ({"network": {"kind": "big-switch", "hosts": 2, "capcity": 1}},
     "network.capcity: unknown option of topology 'big-switch' 'capcity' (did you mean 'capacity"),
    ({"network": {"kind": "big-switch", "hosts": 2, "sha256": "0"}}, "network.sha256: sha256 is"),
    ({"workload": {"name": "parrot-61"}}, "workload.name: unknown workload 'parrot-61' (did you"),
    ({"workload": {"name": "demo"}}, "workload.name: unknown workload 'demo'"),
    ({"workload": {}}, "workload: give the name of a ready-made workload, a file, or a format"),
    ({"workload": {"file": "nowhere.csv"}}, "workload.file: nowhere.csv: no such file"),
    ({"workload": {"format": "tiresiaz"}}, "workload.format: unknown workload format 'tiresiaz'"),
    ({"workload": {"name": "parrot-fig2", "seed": -1}}, "workload.seed: seed must be"),
    ({"workload": SYNTHETIC | {"length": "NaNMB"}}, "workload.length: length 'NaNMB' is not a"),
    ({"workload": SYNTHETIC | {"jbs": 4}}, "workload.jbs: unknown synthetic option 'jbs' (did"),
    ({"workload": SYNTHETIC}, "workload: job "),
    ({"allocator": "parot"}, "allocator.name: unknown allocator 'parot' (did you mean 'parrot'?)"),
    ({"allocator": "nowhere:Mine"}, "allocator.name: allocator 'nowhere:Mine' cannot be loaded:"),
    ({"allocator": 5}, "allocator: must be a name, or a table with a name and options, not 5"),
    ({"allocator": {"theta_max": 0.6}}, "allocator.name: is required"),
    ({"allocator": {"name": "parrot", "theta_max": 1}},
     "allocator.theta_max: theta_max must be a number in [0.5, 1), not 1"),
    ({"allocator": "parrot:theta_max=0.4"}, "allocator.theta_max: theta_max must be a number in"),
    ({"allocator": {"name": "parrot", "theta": 0.6}}, "allocator.theta: unknown option of alloca"),
    ({"allocator": {"name": "lccf", "work_conservation": "backfill"}},
     "allocator.work_conservation: unknown work_conservation 'backfill'; choose from: capped, "),
    ({"compare": {"allocators": ["parrot", "lcff"]}}, "compare.allocators.1.name: unknown alloca"),
    ({"compare": {"allocator": []}}, "compare.allocator: unknown key 'allocator' (did you mean"),
    ({"events": [{"at": "1s", "link": "egress-2", "capacity": 1}]},
     "events.0.link: network 'parrot-fig2' has no link 'egress-2' (did you mean 'egress-1' or"),
    ({"events": [{"at": "1s", "link": 1.5, "capacity": 1}]}, "events.0.link: must be a link's"),
    ({"events": [{"at": "-1s", "link": 0, "capacity": 1}]}, "events.0.at: time must be at least"),
    ({"events": [{"at": 1, "link": 0, "capacity": -1}]}, "events.0.capacity: capacity must be at"),
    ({"events": [{"at": 1, "link": 0, "capacty": 1, "capacity": 1}]},
     "events.0.capacty: unknown key 'capacty' (did you mean 'capacity'?); choose from: at, cap"),
    ({"events": [{"at": 1, "link": 0}]}, "events.0: to degrade, give a capacity or a factor"),
]


def test_what_is_wrong_is_said_with_its_key(tables) -> None:
    def is_said(given):
        keys, problem = given
        found = problems(**tables | keys)
        assert len(found) == 1
        assert found[0].startswith(problem)

    check_each(is_said, WRONG)


def test_everything_wrong_is_said_at_once() -> None:
    found = problems(
        network={"kind": "big-switch", "hosts": 4, "capacity": "-1Gbps", "egress": "x", "foo": 3},
        workload={"format": "synthetic", "jobs": -1, "length": "5x", "arrival_scale": -1},
        allocator={"name": "parrot", "theta_max": 1, "work_conservation": "x"},
        events=[{"at": "x", "link": 0}, 5], until="y", bar=1,
        compare={"allocators": ["parrto", "parrot:theta_max=2", "lccf"]})
    assert [problem.partition(":")[0] for problem in found] == [
        "until", "network.foo", "network.egress", "network.capacity",
        "workload.arrival_scale", "workload.length", "workload.jobs",
        "allocator.work_conservation", "allocator.theta_max", "events.0.at",
        "events.1", "compare.allocators.0.name", "compare.allocators.1.theta_max", "bar"]


def test_a_job_must_fit_the_network(tables) -> None:
    assert problems(**tables | {"workload": {"format": "synthetic", "jobs": 60}})[0].endswith(
        "distinct hosts; network 'parrot-fig2' has 2 hosts")


def test_the_seed_is_also_the_workload_s_unless_that_has_its_own(tables) -> None:
    own = tables | {"workload": tables["workload"] | {"seed": 3}}
    assert Experiment(**tables, seed=7).workload.built.seed == 7
    assert Experiment(**own, seed=7).workload.built.seed == 3
    assert tables["workload"] == {"name": "parrot-fig2"}


def test_errors_travel_between_processes(tables) -> None:
    with pytest.raises(SpecError) as caught:
        Experiment(**tables, seed=-1, bar=1)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.problems) == (str(caught.value), caught.value.problems)


# --- resolved -----------------------------------------------------------------------------


def test_resolved_says_everything() -> None:
    experiment = Experiment(
        name="x", seed=4, network={"name": "big-switch-128-10g", "capacity": "40Gbps"},
        workload={"name": "parrot-60", "jobs": 5}, allocator="parrot:theta_max=0.6",
        until="1s", compare={"allocators": ["lccf"]})
    assert experiment.resolved() == {
        "name": "x", "description": "", "seed": 4, "observe_interval": 0.0, "until": 1.0,
        "record": ["jobs", "coflows"], "check": True, "events": [],
        "network": {"kind": "big-switch", "name": "big-switch-128-10g (capacity=40Gbps)",
                    "hosts": 128, "capacity": "40Gbps", "loopback_uses_ports": False},
        "workload": {"name": "parrot-60", "format": "synthetic", "seed": 4, "jobs": 5,
                     "trace_seed": 1, "iterations": 10, "arrival_scale": 0.05,
                     "length": "250MB", "redraw": False, "ranks_per_gpu": 2},
        "allocator": {"name": "parrot", "theta_max": 0.6, "work_conservation": "backfill"},
        "compare": {"allocators": [{"name": "lccf", "work_conservation": "greedy"}]},
    }


def test_a_preset_resolves_to_its_options() -> None:
    resolved = Experiment(network={"name": "parrot-fig2"}, workload={"name": "parrot-fig2"},
                          allocator="coflowsim-sebf:decisions=flow").resolved()
    assert resolved["allocator"] == {"name": "coflowsim-sebf", "key": "original",
                                     "work_conservation": "coflowsim", "decisions": "flow"}
    assert Experiment(**resolved).resolved() == resolved


def _network_file(folder: Path) -> dict[str, Any]:
    (folder / "n.toml").write_text('kind = "big-switch"\nhosts = 3\ndescription = "three"\n')
    return {"file": str(folder / "n.toml"), "capacity": "1MB/s"}


def _instance(folder: Path, size: int = 5) -> dict[str, Any]:
    flows = [{"src": 0, "dst": 1, "bytes": size}]
    (folder / "i.json").write_text(json.dumps({
        "hosts": 3, "port_capacity_bytes_per_s": 1, "jobs": [{"coflows": [flows]}]}))
    return {"file": str(folder / "i.json")}


def test_resolved_again_is_the_same(tmp_path, tables) -> None:
    """For every way to say where a network and a workload come from, through TOML and JSON."""
    (tmp_path / "w.toml").write_text('format = "synthetic"\njobs = 2\niterations = 1\n'
                                     'poisson_jobs = 3\npoisson_mean = "10ms"\n')
    networks = [{"name": "big-switch-128-10g"}, {"kind": "big-switch", "hosts": 64, "name": "b"},
                {"kind": "big-switch", "hosts": 40, "egress": [1e9] * 40, "ingress": "1Gbps"}]
    workloads = [SYNTHETIC, {"file": str(tmp_path / "w.toml")}, {"name": "parrot-fig2"},
                 SYNTHETIC | {"name": "label"}]
    pairs = [(network, workload) for network in networks for workload in workloads]
    pairs += [(_network_file(tmp_path), _instance(tmp_path)), (_instance(tmp_path),) * 2]
    for network, workload in pairs:
        first = Experiment(network=network, workload=workload, seed=2)
        resolved = first.resolved()
        again = Experiment(**tomllib.loads(tomli_w.dumps(resolved)))
        assert again.resolved() == resolved == json.loads(json.dumps(resolved))
        assert again.workload.built.name == first.workload.built.name
        assert again.network.built.name == first.network.built.name
        assert again.network.built.capacity.tolist() == first.network.built.capacity.tolist()


def test_resolved_describes_a_ready_made_network_without_its_file(tmp_path) -> None:
    network = Experiment(network=_network_file(tmp_path), workload=_instance(tmp_path)).resolved()
    assert network["network"] == {"kind": "big-switch", "name": "n (capacity=1MB/s)", "hosts": 3,
                                  "capacity": "1MB/s", "loopback_uses_ports": False}


def test_a_file_that_has_changed_is_refused(tmp_path, tables) -> None:
    keys = tables | {"workload": _instance(tmp_path)}
    resolved = Experiment(**keys).resolved()
    Experiment(**resolved)
    _instance(tmp_path, size=6)
    found = problems(**resolved)
    assert found == [f"workload.sha256: {tmp_path / 'i.json'} has changed: its sha256 is "
                     f"{Experiment(**keys).resolved()['workload']['sha256']}, not "
                     f"{resolved['workload']['sha256']}"]
    network = Experiment(network=_instance(tmp_path), workload=_instance(tmp_path)).resolved()
    assert network["network"] == {
        "file": str(tmp_path / "i.json"), "sha256": network["workload"]["sha256"]}
    network = {"file": str(tmp_path / "i.json"), "sha256": "0"}
    assert problems(**tables | {"network": network})[0].startswith("network.sha256: ")


def test_the_hash_is_of_what_counts(tmp_path, tables, monkeypatch) -> None:
    def digest(**keys: Any) -> str:
        return spec_hash(Experiment(**tables | keys).resolved())

    assert digest() == digest(description="x") == digest(seed=0) == digest(allocator="maxmin")
    assert len({digest(), digest(seed=1), digest(allocator="parrot"), digest(name="b"),
                digest(allocator="parrot:theta_max=0.6")}) == 5
    assert len(digest()) == 8
    int(digest(), 16)
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    assert digest(workload=_instance(here)) == digest(workload=_instance(there))
    assert digest(workload=_instance(here)) != digest(workload=_instance(there, size=6))
    before = digest()
    monkeypatch.setattr("netsim.experiment_file.experiment.__version__", "0.0.0")
    assert digest() != before


def test_the_default_folder_has_name_and_hash(tables) -> None:
    experiment = Experiment(**tables, name="fig2")
    assert default_folder(experiment) == Path("runs") / f"fig2-{spec_hash(experiment.resolved())}"


def test_single_leaves_nothing_to_compare(tables) -> None:
    experiment = Experiment(**tables, compare={"allocators": ["lccf"]})
    single = experiment.single(allocator=experiment.compare.allocators[0])
    assert "compare" not in single.resolved()
    assert single.resolved()["allocator"]["name"] == "lccf"
    assert experiment.single().resolved()["allocator"]["name"] == "maxmin"


def test_run_gives_what_simulate_gives(tables) -> None:
    experiment = Experiment(**tables, allocator="parrot", observe_interval="10ms",
                            compare={"allocators": ["lccf"]})
    ran = netsim.run(experiment)
    simulated = netsim.simulate("parrot-fig2", "parrot-fig2", allocator="parrot",
                                observe_interval="10ms")
    assert ran.jobs.equals(simulated.jobs)
    assert ran.coflows.equals(simulated.coflows)
    assert ran.spec == experiment.single().resolved()


def test_run_takes_events_and_until(tables) -> None:
    """With every port at half speed, everything takes twice as long."""
    slow = [{"at": "0s", "link": link, "capacity": "500kB/s"} for link in range(4)]
    stopped = netsim.run(Experiment(**tables, until="7s"))
    assert len(stopped.coflows) < len(netsim.run(Experiment(**tables)).coflows) == 4
    halved = netsim.run(Experiment(**tables, events=slow))
    assert halved.jobs["jct_s"].to_numpy() == pytest.approx(
        2 * netsim.run(Experiment(**tables)).jobs["jct_s"].to_numpy())


def test_an_allocator_of_one_s_own_keeps_its_options(tables) -> None:
    table = {"name": "netsim.allocators.parrot:Parrot", "theta_max": 0.7}
    experiment = Experiment(**tables, allocator=table)
    assert experiment.resolved()["allocator"] == table | {"work_conservation": "backfill"}
    assert Experiment(**experiment.resolved()).resolved() == experiment.resolved()
