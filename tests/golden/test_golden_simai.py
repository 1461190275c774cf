"""Workloads of SimAI and AICB: facts of real files, and small files with theirs."""

import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import netsim
from netsim.errors import TraceError
from netsim.traces.training.aicb import read_aicb_file
from netsim.traces.training.simai import simai_times
from netsim.traces.training.simai_file import read_simai_file
from netsim.traces.training.simai_tool import read_busbw
from tests.pairs import but, exhaustive

DATA = Path(os.environ.get("NETSIM_TRACES", Path(__file__).parents[3] / "shared" / "data"))
EXAMPLE = DATA / "simai" / "workload_analytical.txt"
KINDS = {"all-reduce": "ALLREDUCE", "all-gather": "ALLGATHER", "reduce-scatter": "REDUCESCATTER",
         "all-to-all": "ALLTOALL"}
HEADER = ("tp", "ep", "pp", "vpp", "ga", "all_gpus", "pp_comm")

pytestmark = pytest.mark.filterwarnings("ignore::netsim.errors.NetsimWarning")


def real(case):
    """Return the real files that are there, with their facts."""
    found = [(DATA / name, expected) for name, expected in json.loads(case.read_text()).items()
             if (DATA / name).exists()]
    if not found:
        pytest.skip("the real files are not there")
    return found


def word(group):
    return group.replace("-", "_").upper()


def test_real_files(traces_simai_case):
    for path, expected in real(traces_simai_case):
        file = read_simai_file(path)
        header = expected["header"]
        assert file.policy == header["policy"]
        for name, key in zip(HEADER, (*HEADER[:5], "gpus", "pp_bytes"), strict=True):
            assert file.header.get(key) == header.get(name)
        assert (file.checkpoints, file.initiates) == (
            tuple(header["checkpoints"]), tuple(header["checkpoint_initiates"]))
        assert Counter(layer.name for layer in file.layers) == expected["layers_by_name"]
        computes, collectives = Counter(), {}
        for layer in file.layers:
            for column, step in zip(("fwd", "ig", "wg"), layer.steps, strict=True):
                computes[column] += step.compute_ns
                if step.kind:
                    key = f"{column} {KINDS[step.kind]} {word(step.group)}"
                    collectives.setdefault(key, []).append(step.nbytes)
        assert computes == expected["compute_ns"]
        assert {key: (len(sizes), sizes.count(0), sum(sizes)) for key, sizes in collectives.items()
                } == {key: (each["count"], each["zero_size"], each["bytes"])
                      for key, each in expected["collectives"].items()}
        assert [text for _, _, text in file.unknown] == [
            text for _, text in expected["unknown_words"]]


def test_real_files_of_aicb(traces_aicb_csv_case):
    for path, expected in real(traces_aicb_csv_case):
        file = read_aicb_file(path)
        assert len(file.rows()) == expected["rows"]
        assert sum(row.kind == "epoch-end" for row in file.rows()) == expected["epoch_ends"]
        assert Counter(row.stage for row in file.rows()) == expected["rows_by_stage"]
        count, nbytes = Counter(), Counter()
        for row in file.rows():
            if row.group and row.kind != "barrier":
                size = file.sizes[row.group]
                key = f"{row.kind.replace('-', '_')} {row.group}_group {size}"
                count[key] += 1
                nbytes[key] += row.nbytes
        others = ("epoch_end", "barrier")
        for found, facts in ((count, expected["count"]), (nbytes, expected["bytes"])):
            assert found == {key: each for key, each in facts.items()
                             if not key.startswith(others)}
        result = netsim.simulate(netsim.big_switch(file.ranks, "50GB/s"),
                                 netsim.read_workload(path))
        assert result.jobs["ranks"][0] == file.ranks


def test_the_example_of_9216_gpus(traces_simai_9216_case):
    """Its tool's arithmetic to the microsecond, and the groups, also those scaled from 768."""
    expected = json.loads(traces_simai_9216_case.read_text())
    if not EXAMPLE.exists():
        pytest.skip("the real file is not there")
    for setting in expected["analytical"].values():
        given, us = setting["parameters"], setting["us"]
        times = simai_times(
            EXAMPLE, nvlink=f"{given['nv']}GiB/s", nic=f"{given['nic']}GiB/s", efficiency=".",
            gpus_per_server=given["gpus_per_server"], nics_per_server=given["nics_per_server"],
            overlap={key.removesuffix("_o"): each for key, each in given.items()
                     if key.endswith("_o")})
        for name, each in zip(("compute", "EP", "TP", "DP_EP", "DP", "bubble", "PP", "total",
                               "exposed"), (*times, times.total_s, times.exposed_s), strict=True):
            assert each * 1e6 == pytest.approx(us[name], rel=1e-9, abs=1e-3), name
    total = expected["analytical"]["example"]["us"]["total"]
    for options in ({}, {"gpus": 768, "scale": {"dp": 12}}):
        times = simai_times(EXAMPLE, nvlink="360GiB/s", nic="48.5GiB/s", efficiency=".", **options)
        assert times.total_s * 1e6 == pytest.approx(total, rel=1e-9, abs=1e-3)
        made = netsim.read_workload(EXAMPLE, **options)[0].operations
        families = {word(each.group): each.members for each in made.families}
        for name in ("TP", "DP", "EP", "DP_EP"):
            facts = expected["groups"][name]
            assert families[name].shape == (facts["number"], facts["size"])
            for at, which in ((0, "first"), (1, "second"), (-1, "last")):
                assert families[name][at].tolist()[:24] == facts[which]


def test_the_list_of_bandwidths():
    """SimAI's own: what it lists, in GiB/s."""
    path = EXAMPLE.with_name("busbw.yaml")
    if not path.exists():
        pytest.skip("the real file is not there")
    known = {key: rate / 2**30 for key, rate in read_busbw(path).items()}
    assert known == {
        ("tp", "all-reduce"): 300, ("tp", "all-gather"): 280, ("tp", "reduce-scatter"): 280,
        ("tp", "all-to-all"): 230, ("dp", "all-gather"): 380, ("dp", "reduce-scatter"): 380,
        ("ep", "all-gather"): 45, ("ep", "reduce-scatter"): 45, ("ep", "all-to-all"): 80}


@exhaustive
def test_the_example_simulated_is_the_tool_s(traces_simai_9216_case):
    """The total is what the tool says but for what overlaps.

    Each GPU has a port of NVLink and a NIC of its own on a switch, as the tool takes it. What
    differs in the total: gradients of DP and DP-EP groups overlap.
    """
    us = json.loads(traces_simai_9216_case.read_text())["analytical"]["example"]["us"]
    if not EXAMPLE.exists():
        pytest.skip("the real file is not there")
    net = netsim.gpu_cluster(1152, 8, "360GiB/s", "48.5GiB/s", rails=1, spine=0)
    workload = netsim.read_workload(EXAMPLE, pipeline="formula", nvlink="360GiB/s",
                                    nic="48.5GiB/s", efficiency=".")
    total = netsim.simulate(net, workload).jobs["jct_s"][0] * 1e6
    assert total == pytest.approx(us["total"], rel=0.01)
    assert total < us["total"]


@exhaustive
@pytest.mark.slow
def test_the_example_with_activations_on_the_nics(traces_simai_9216_case):
    """Sent for real, they contend with collectives for the NICs.

    There is no bubble by the formula then, which is 346 ms of the 7,516; what is sent adds 41 ms to
    the rest, as `docs/training-traces.md` says. All is simulated once per kind of rank.
    """
    us = json.loads(traces_simai_9216_case.read_text())["analytical"]["example"]["us"]
    if not EXAMPLE.exists():
        pytest.skip("the real file is not there")
    net = netsim.gpu_cluster(1152, 8, "360GiB/s", "48.5GiB/s", rails=1, spine=0)
    workload = netsim.read_workload(EXAMPLE, pipeline="send", nvlink="360GiB/s", nic="48.5GiB/s",
                                    efficiency=".")
    result = netsim.simulate(net, workload)
    total = result.jobs["jct_s"][0] * 1e6
    assert 0.99 * (us["total"] - us["bubble"]) < total < us["total"]
    assert total == pytest.approx(7_210_800, rel=1e-6)


def only(group, folder):
    """Write the example with the collectives of one kind of group alone, and no computation."""
    file = read_simai_file(EXAMPLE)
    words = {(kind, kept): KINDS[kind] + suffix for kind in KINDS
             for kept, suffix in (("tp", ""), ("dp", ""), ("ep", "_EP"), ("dp-ep", "_DP_EP"))}
    lines = EXAMPLE.read_text().splitlines()[:2]
    for layer in file.layers:
        steps = [f"0 {words[step.kind, group]} {step.nbytes}" if step.group == group
                 else "0 NONE 0" for step in layer.steps]
        lines.append(f"{layer.name} -1 {' '.join(steps)} {layer.update_ns}")
    path = folder / "only.txt"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("group", but(["ep", "tp", "dp-ep", "dp"], "dp-ep"))
def test_each_group_of_the_example_alone_takes_what_the_tool_says(traces_simai_9216_case, group,
                                                                  tmp_path):
    """Within 0.1 %, by as much as collectives end late (`update`)."""
    us = json.loads(traces_simai_9216_case.read_text())["analytical"]["example"]["us"]
    if not EXAMPLE.exists():
        pytest.skip("the real file is not there")
    net = netsim.gpu_cluster(1152, 8, "360GiB/s", "48.5GiB/s", rails=1, spine=0)
    workload = netsim.read_workload(
        only(group, tmp_path), pipeline="formula", nvlink="360GiB/s", nic="48.5GiB/s",
        efficiency=EXAMPLE.parent)
    result = netsim.simulate(net, workload)
    bubble = simai_times(tmp_path / "only.txt", nvlink="360GiB/s", nic="48.5GiB/s",
                         efficiency=EXAMPLE.parent).bubble_s
    assert (result.jobs["jct_s"][0] - bubble) * 1e6 == pytest.approx(us[word(group)], rel=1e-3)


def small(case, part):
    """Return the cases of SimAI among small ones."""
    found = [each for each in json.loads(case.read_text())[part]
             if each.get("text", "").startswith("HYBRID")]
    assert found
    return found


def test_small_files(traces_cases_case, tmp_path):
    """The timed iteration, with what shares a port."""
    for case in small(traces_cases_case, "good"):
        path = tmp_path / case["name"]
        path.write_text(case["text"])
        result = netsim.simulate(netsim.big_switch(4, 50e9), netsim.read_workload(path),
                                 record=["jobs", "coflows"])
        expected = case["expect"]["ns"]
        ends = result.coflows["finish_s"].to_numpy()[::2] * 1e9
        begins = result.coflows["start_s"].to_numpy()[::2] * 1e9
        assert begins[[0, 1]] == pytest.approx(
            [expected["A fwd collective"][0], expected["B wg collective"][0]])
        assert np.sort(ends) == pytest.approx(sorted(
            expected[name][1] for name in expected if "collective" in name
            or "shares" in name), rel=1e-9)
        assert result.jobs["jct_s"][0] * 1e9 == pytest.approx(expected["iteration"], rel=1e-9)


#: Words that the errors must have, as the cases say them in other words.
SAID = {"policy.txt": "policy 'HYBRID_UNKNOWN'", "short.txt": "3 layers are announced, and 2",
        "number.txt": "layer 0 (A), gradient of inputs: size must be .*'4x'",
        "factors.txt": "5 is not 2 x 1 x dp"}


def test_bad_files(traces_cases_case, tmp_path):
    cases = small(traces_cases_case, "bad")
    assert {case["name"] for case in cases} == SAID.keys()
    for case in cases:
        path = tmp_path / case["name"]
        path.write_text(case["text"])
        words = SAID[case["name"]].replace("(", r"\(").replace(")", r"\)")
        with pytest.raises(TraceError, match=f"{case['name']}.*{words}"):
            netsim.read_workload(path)
