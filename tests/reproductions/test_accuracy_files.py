"""Tables of times of others: small ones made by hand, in the formats of their publishers."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from netsim.errors import TraceError
from netsim.reproductions.accuracy import find_file
from netsim.reproductions.accuracy_htsim import read_htsim_results
from netsim.reproductions.accuracy_m3 import read_m3
from netsim.traces.measured import read_vidur

#: Two flows to host 2, of which only the second is observed.
SCENARIO = {"start_ns": [5, 105], "hosts": [[0, 2], [1, 2]], "bytes": [1000, 2500],
            "observed": [1], "flowsim_ns": [2112.0], "ideal_ns": [4112], "ns3_ns": [5000]}
FILES = {"start_ns": "fat", "hosts": "fsd", "bytes": "fsize", "observed": "fid_topo-pl-3_s0",
         "flowsim_ns": "fct_flowsim", "ideal_ns": "fct_i_topo-pl-3_s0",
         "ns3_ns": "fct_topo-pl-3_s0"}


def shard(folder: Path, number: int = 0, **changed: object) -> Path:
    """Write a scenario as m3 does."""
    made = folder / f"shard{number}_nflows100_nhosts3_lr10Gbps"
    made.mkdir(parents=True)
    for name, values in (SCENARIO | changed).items():
        np.save(made / f"{FILES[name]}.npy", np.array(values))
    (made / "param_topo-pl-3_s0.txt").write_text("0.0 36.4\n0 364 22879 1 dctcp 20\n")
    return made


def archive(path: Path, control: str = "dctcp", **changed: object) -> Path:
    """Write the same scenario into one archive."""
    arrays = SCENARIO | {"control": control} | changed
    np.savez(path, **{f"0/{name}": np.array(values) for name, values in arrays.items()})
    return path


@pytest.mark.parametrize("write", [
    lambda folder: shard(folder).parent, lambda folder: archive(folder / "a.npz"),
    lambda folder: archive(folder / "a.npz").parent], ids=["shards", "archive", "its folder"])
def test_a_scenario_of_m3(tmp_path, write):
    """Times are seconds from the first start."""
    (found,) = read_m3(write(tmp_path))
    assert found.control == "dctcp"
    np.testing.assert_allclose(found.start_s, [0, 1e-7], atol=1e-20)
    assert (found.src.tolist(), found.dst.tolist()) == ([0, 1], [2, 2])
    assert (found.nbytes.tolist(), found.observed.tolist()) == ([1000, 2500], [1])
    times = [*found.maxmin_s, *found.alone_s, *found.packets_s]
    assert times == pytest.approx([2.112e-6, 4.112e-6, 5e-6])


def test_scenarios_are_in_order_of_their_numbers(tmp_path):
    for number in (10, 2):
        shard(tmp_path, number, bytes=[number, 1])
    assert [each.nbytes[0] for each in read_m3(tmp_path)] == [2, 10]


@pytest.mark.parametrize(("changed", "message"), [
    ({"bytes": [[1], [2]]}, r"bytes \(fsize\) must be numbers of shape \(flows,\), not int64 of "),
    ({"bytes": ["a", "b"]}, r"bytes \(fsize\) must be numbers of shape \(flows,\), not <U1 of sha"),
    ({"hosts": [0, 2]}, r"hosts \(fsd\) must be numbers of shape \(flows, 2\)"),
    ({"hosts": [[0, 3], [1, 2]]}, "hosts must be two different ones from 0 to 2"),
    ({"hosts": [[0, 2], [1, 1]]}, "hosts must be two different ones from 0 to 2"),
    ({"ns3_ns": [-1]}, r"ns3_ns \(fct_topo-pl-3_s0\) must be finite and not negative"),
    ({"ideal_ns": [np.nan]}, r"ideal_ns \(fct_i_topo-pl-3_s0\) must be finite"),
    ({"observed": [2]}, "observed has flow 2; there are 2"),
    ({"observed": [0, 1]}, "flowsim_ns has 1 flows, not 2"),
    ({"start_ns": []}, r"start_ns \(fat\) must be numbers of shape"),
])
def test_what_is_wrong_with_a_scenario(tmp_path, changed, message):
    for path in (shard(tmp_path, **changed).parent, archive(tmp_path / "a.npz", **changed)):
        with pytest.raises(TraceError, match=message):
            read_m3(path)


def test_files_of_m3_that_cannot_be_read(tmp_path):
    with pytest.raises(TraceError, match=r"has neither folders shard<number>_... nor one archive"):
        read_m3(tmp_path)
    path = tmp_path / "a.npz"
    path.write_bytes(b"PK\3\4 and no more")
    with pytest.raises(TraceError, match=r"a\.npz: is no archive that can be read"):
        read_m3(path)
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("0/bytes.npy", "not an array")
    with pytest.raises(TraceError, match=r"0/bytes\.npy: is no array that can be read"):
        read_m3(path)
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("README", "")
    with pytest.raises(TraceError, match=r"'README' is not <number>/<name>\.npy"):
        read_m3(path)
    made = shard(tmp_path / "shards")
    (made / "fat.npy").unlink()
    with pytest.raises(TraceError, match=r"fat\.npy: no such file"):
        read_m3(made.parent)


def test_a_pickle_is_never_loaded(tmp_path):
    """It could run code."""
    data = io.BytesIO()
    np.save(data, np.array([{"a": 1}], dtype=object))
    made = shard(tmp_path)
    (made / "fat.npy").write_bytes(data.getvalue())
    with pytest.raises(TraceError, match="is no array that can be read: Object arrays cannot be"):
        read_m3(tmp_path)


RUNS = """\
Using binary: ./htsim_uec

Experiment: incast 200 Gbps  1 MB 2 connections 0 startdelta algorithm rccc
==========================================
[FAIL] Tail FCT 93.7281 us above the target of 92 us
[PASS] Connection count 2
Summary: New: 500 Rtx: 5 RTS: 0 Bounced: 0 ACKs: 438
Experiment: another one
[PASS] Tail FCT 100 us below the target of 112 us
Summary: New: 1 Rtx: 0 RTS: 0
"""


def test_what_htsim_prints(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text(RUNS)
    one, other = read_htsim_results(path)
    assert one.title == "incast 200 Gbps 1 MB 2 connections 0 startdelta algorithm rccc"
    assert (one.last_s, one.resent) == (pytest.approx(93.7281e-6), 0.01)
    assert (other.title, other.last_s, other.resent) == ("another one", pytest.approx(1e-4), 0)


@pytest.mark.parametrize(("text", "message"), [
    ("nothing\n", r"out\.txt: has no line 'Experiment: \.\.\.'"),
    (RUNS[:RUNS.index("[PASS] Tail")], r"out\.txt:8: the run has no line '\[PASS\] Tail FCT"),
    (RUNS[:RUNS.rindex("Summary")], r"out\.txt:8: the run has no line 'Summary: New: "),
    (RUNS.replace("New: 1 ", "New: 0 "), r"out\.txt:8: the run has no line 'Summary: New: "),
])
def test_prints_that_were_cut(tmp_path, text, message):
    path = tmp_path / "out.txt"
    path.write_text(text)
    with pytest.raises(TraceError, match=message):
        read_htsim_results(path)


VIDUR = """\
,time_stats.all_reduce.min,rank,num_workers,size,devices_per_node
0,0.015,0,8,2048,8
1,0.021,0,8,2048,8
2,0.900,3,8,2048,8
3,0.006,0,2,4096,2
"""


def test_a_table_of_vidur(tmp_path):
    """Rank 0 only, the median of several; in order of GPUs and size."""
    path = tmp_path / "all_reduce.csv"
    path.write_text(VIDUR)
    found = read_vidur(path)
    assert found[["gpus", "per_server", "bytes"]].to_numpy().tolist() == [[2, 2, 4096],
                                                                         [8, 8, 2048]]
    assert found["measured_s"].tolist() == pytest.approx([6e-6, 18e-6])


@pytest.mark.parametrize(("old", "new", "message"), [
    (".min", ".max", r"csv:1: has no column time_stats\.<collective>\.min"),
    ("rank", "rang", r"csv:1: has no column rank"),
    ("0.006", "-1", r"csv:5: time_stats\.all_reduce\.min must be a number greater than 0, .*'-1'"),
    ("4096", "4e3", r"csv:5: size must be a whole number of at least 1, not '4e3'"),
    (",2048,8\n1", "\n1", r"csv:2: has 4 values, not 6"),
    (",0,", ",1,", r"csv: has no rows of rank 0"),
])
def test_what_is_wrong_with_a_table(tmp_path, old, new, message):
    path = tmp_path / "all_reduce.csv"
    path.write_text(VIDUR.replace(old, new))
    with pytest.raises(TraceError, match=message):
        read_vidur(path)


def test_a_file_is_found_by_any_of_its_names(tmp_path):
    (tmp_path / "deep").mkdir()
    path = tmp_path / "deep" / "b.txt"
    path.write_text("")
    assert find_file(tmp_path, "a.txt", "b.txt") == path
    with pytest.raises(TraceError, match=r"has no file c\.txt or deep/c\.txt"):
        find_file(tmp_path, "c.txt", "deep/c.txt")
