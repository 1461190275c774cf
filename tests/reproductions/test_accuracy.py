"""Comparisons with measured times: on small tables made by hand, and on the public ones."""

from __future__ import annotations

import os
import re
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from netsim import __version__
from netsim.cli.main import main
from netsim.errors import InputError
from netsim.network import read_network
from netsim.reproductions import Accuracy, accuracy_allreduce, accuracy_htsim, find_reproduction
from netsim.reproductions.accuracy import (
    at_odd_positions,
    errors_by,
    find_file,
    fit_times,
    fitted,
    fitted_text,
    on_page,
)
from netsim.reproductions.accuracy_m3 import path_of_three, read_m3, simulate_scenario
from netsim.reproductions.drawings import filled
from tests.reproductions.test_accuracy_files import shard

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("NETSIM_TRACES", ROOT.parent / "shared" / "data"))
PAGE = (ROOT / "docs" / "accuracy.md").read_text()


# --- small tables of the same formats -------------------------------------------------------


def m3(folder):
    """Two flows of 10 packets share a link: 2 x 10,480 bytes at 1.25 GB/s, and 2 us on the way.

    A packet-level simulation of twice these times, with the start at 7 ns.
    """
    sent = 2 * 10480 / 1.25
    shard(folder, start_ns=[7, 7], hosts=[[0, 2], [1, 2]], bytes=[10000, 10000], observed=[0, 1],
          flowsim_ns=[sent, sent], ideal_ns=[10384, 10384], ns3_ns=[2 * (sent + 2000)] * 2)


def run_of(title, seconds):
    return (f"Experiment: {title}\n[PASS] Tail FCT {seconds * 1e6:.9f} us below the target\n"
            "Summary: New: 100 Rtx: 7 RTS: 0\n")


def htsim(folder):
    """Incasts that take what the parameters say; permutations that take twice a fluid's time."""
    folder.mkdir()
    own, texts = fitted("accuracy-htsim")["incast"], []
    for size, senders, apart, control in product((1, 16), (2, 8), (0, 16), ("rccc", "nscc")):
        seconds = 4e-6 + own["overhead_s"] + senders * size * 2**20 / 25e9 / own["efficiency"]
        texts.append(run_of(f"incast 200 Gbps  {size} MB {senders} connections {apart} "
                            f"startdelta algorithm {control} ", seconds))
    (folder / "experiment2_out.txt").write_text("".join(texts))
    for size in (1, 16):
        (folder / f"perm_8192n_8192c_{size}MB.cm").write_text(
            f"Nodes 8192\nConnections 1\n0->8191 id 1 start 0 size {size * 10**6}\n")
    for gbps, control, ratio in product((200, 400), ("nscc", "rccc"), ("", "_4_to_1", "_8_to_1")):
        alone = [4e-6 + own["overhead_s"] + size * 1e6 / (gbps / 8 * 1e9) / own["efficiency"]
                 for size in (1, 16)]
        (folder / f"{gbps}g_{control}{ratio}.txt").write_text("".join(
            run_of(f"8K permutation, 8K leaf-spine, {gbps}Gbps, {paths} paths, {size}MB messages, "
                   f"{control.upper()} ", 2 * seconds)
            for paths in (32, 128) for size, seconds in zip((1, 16), alone, strict=True)))


def vidur(folder):
    """Times that are what the parameters say."""
    folder.mkdir()
    own = fitted("accuracy-allreduce")
    sizes = [2**k for k in range(11, 27, 3)]
    head = ",time_stats.x.min,rank,num_workers,size,devices_per_node\n"
    rows = [(_ring_s(n, size, own["all-reduce"]), n, size, n) for n in (2, 4, 8) for size in sizes]
    (folder / "all_reduce.csv").write_text(head + "".join(
        f"0,{t * 1e3!r},0,{n},{size},{per}\n" for t, n, size, per in rows))
    rows = [(own[kind]["launch_s"] + own["all-reduce"]["latency_s"]
             + size / (rate * own[kind]["efficiency"]), size, per) for size in sizes
            for kind, rate, per in (("inside-server", 450e9, 2), ("across-servers", 50e9, 1))]
    (folder / "send_recv.csv").write_text(head + "".join(
        f"0,{t * 1e3!r},0,2,{size},{per}\n" for t, size, per in rows))
    for name in ("all_reduce", "send_recv"):
        (folder / f"{name}.csv").rename(folder / f"h100_dgx-{name}.csv")


def _ring_s(n, size, own):
    """Return l + 2(n - 1)(a + S/(n e B))."""
    step = own["latency_s"] + size / (n * own["efficiency"] * 450e9)
    return own["launch_s"] + 2 * (n - 1) * step


TABLES = {"accuracy-m3": m3, "accuracy-htsim": htsim, "accuracy-allreduce": vidur}


@pytest.fixture(scope="session")
def ran(tmp_path_factory):
    """Return a function that runs a comparison on its small table, once."""
    done = {}

    def run(name):
        if name not in done:
            folder = tmp_path_factory.mktemp(name)
            TABLES[name](folder / "data")
            found = find_reproduction(name).run(trace=folder / "data", folder=folder / "out")
            done[name] = found, folder
        return done[name]

    return run


def test_a_path_of_three_by_hand(ran):
    """Both are sent after 16.768 us and there after 18.768, half of ns-3's; slowdowns likewise."""
    done, _ = ran("accuracy-m3")
    assert done.table["sent_s"].tolist() == pytest.approx([16.768e-6] * 2, rel=1e-12)
    assert done.table["simulated_s"].tolist() == pytest.approx([18.768e-6] * 2, rel=1e-12)
    row = done.tables["controls"].set_index("control").loc["DCTCP"]
    assert row["mean slowdown, netsim"] == pytest.approx(18768 / 10384)
    assert row["netsim / ns-3"] == pytest.approx(0.5)
    assert done.claims["verdict"].tolist() == ["holds", "differs"]


@pytest.mark.parametrize("name", ["accuracy-htsim", "accuracy-allreduce"])
def test_the_file_of_parameters_is_what_the_fit_gives(ran, name):
    """Times made by the formulas give their parameters, and netsim simulates these times.

    So what is fitted, and what is simulated with it, are the same model.
    """
    done, folder = ran(name)
    assert (folder / "out" / "fitted.toml").read_text() == fitted_text(name, fitted(name))
    assert (done.claims["verdict"] == "holds").all()
    permuted = done.table.get("traffic", pd.Series("", done.table.index)) == "permutation"
    expected = np.where(permuted, 0.5, 1.0)
    np.testing.assert_allclose(done.table["simulated_s"] / done.table["measured_s"], expected,
                               rtol=1e-6)


def test_points_that_were_fitted_are_not_shown(ran):
    """Of the incasts under RCCC that begin together, and of each table of vidur, every other."""
    points = ran("accuracy-htsim")[0].table
    own = points[points["fitted"]]
    assert len(own) == 2
    assert set(zip(own["control"], own["starts"], strict=True)) == {("RCCC", "together")}
    done, _ = ran("accuracy-allreduce")
    assert done.table.groupby(["kind", "gpus"])["fitted"].sum().tolist() == [3] * 5
    assert done.tables["all-reduce"].set_index("gpus")["points"].to_dict() == {
        "2": 3, "4": 3, "8": 3, "all": 9}


def test_the_share_of_packets_that_were_sent_again(ran):
    runs = ran("accuracy-htsim")[0].tables["runs"]
    assert len(runs) == 12
    assert (runs["resent, RCCC"] == 0.07).all()
    assert (runs["error, NSCC"] + 0.5).abs().max() < 1e-6


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_tables(ran, name):
    """Each place is filled, of this version, and for a table of the comparison."""
    places = dict(re.findall(rf"<!-- {name} ([\w -]+): written by netsim reproduce --page -->\n"
                             r"(.*?)<!-- end -->", PAGE, re.DOTALL))
    assert {"source", "claims"} <= places.keys() <= ran(name)[0].tables.keys()
    assert all(text.startswith("| ") and text.count("\n") > 2 for text in places.values())
    assert f"| {__version__} |" in places["source"]


def test_the_command_writes_a_page(ran, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, folder = ran("accuracy-m3")
    mark = "<!-- accuracy-m3 max-min: written by netsim reproduce --page -->\n"
    Path("page.md").write_text(f"before\n{mark}old\n<!-- end -->\nafter\n")
    given = ["reproduce", "accuracy-m3", "--trace", str(folder / "data"), "--page"]
    done = CliRunner().invoke(main, [*given, "page.md"])
    assert done.exit_code == 0, done.output
    text = Path("page.md").read_text()
    assert text.startswith(f"before\n{mark}| scenarios | flows | largest difference |\n|---|---|")
    assert re.search(r"\| 1 \| 2 \| [\d.e-]+ \|\n<!-- end -->\nafter\n$", text)
    Path("page.md").write_text("empty")
    done = CliRunner().invoke(main, [*given, "page.md"])
    assert done.exit_code == 2
    assert "page.md: the page has no place for a table of accuracy-m3" in done.stderr


@pytest.mark.parametrize("name", TABLES)
def test_figures_name_what_they_show(ran, name):
    for ax in ran(name)[0].draw().figure.axes:
        assert ax.get_xlabel()
        assert ax.get_ylabel()
        assert ax.get_legend() is not None


def test_the_table_must_be_given():
    with pytest.raises(InputError, match=r"accuracy-m3 needs the table that it compares with: --t"
                                         r"race \"\$\(netsim data fetch m3\)\""):
        find_reproduction("accuracy-m3").run()


# --- fits and errors ------------------------------------------------------------------------


def test_a_fit_weighs_ratios():
    """Of one parameter, the fit of logarithms is a geometric mean: sqrt(2 x 8) = 4."""
    assert fit_times([[1.0], [1.0]], [2.0, 8.0]) == pytest.approx([4.0])


def test_a_fit_that_is_none():
    with pytest.raises(InputError, match="2 points do not determine 2 parameters"):
        fit_times([[1, 2], [2, 4]], [1, 2])
    with pytest.raises(InputError, match="the fit gives a negative parameter"):
        fit_times([[1, 1], [1, 2]], [1, 3])


def test_odd_positions_count_from_one():
    assert at_odd_positions(5).tolist() == [True, False, True, False, True]


def test_errors_by_hand():
    """Twice and half: |log| is log 2 both times, |r - 1| is 1 and 1/2."""
    points = pd.DataFrame({"kind": "x", "measured_s": [1.0, 2.0], "simulated_s": [2.0, 1.0]})
    (row,) = errors_by(points, ["kind"]).to_dict("records")
    assert row == pytest.approx({"kind": "x", "points": 2, "simulated / measured": 1.0,
                                 "geometric mean error": 1.0, "mean error": 0.75,
                                 "worst error": 1.0}, nan_ok=True)


def test_errors_of_points_that_were_fitted_stand_apart():
    """Held out: 2; fitted: 4 times as long. A class that was all fitted has no row."""
    points = pd.DataFrame({"kind": ["x", "x", "y"], "fitted": [True, False, True],
                           "measured_s": 1.0, "simulated_s": [4.0, 2.0, 1.0]})
    (row,) = errors_by(points, ["kind"]).to_dict("records")
    assert (row["points"], row["geometric mean error"], row["error, fitted points"]) == (
        1, pytest.approx(1.0), pytest.approx(3.0))


# --- the public tables ----------------------------------------------------------------------


def data(name):
    folder = DATA / name
    return pytest.param(folder, marks=pytest.mark.skipif(
        not folder.is_dir(), reason="NETSIM_TRACES has no such table"), id=name)


@pytest.mark.parametrize(("folder", "module", "name"), [
    (*data("htsim").values, accuracy_htsim, "accuracy-htsim"),
    (*data("vidur").values, accuracy_allreduce, "accuracy-allreduce")])
def test_parameters_are_those_of_the_public_tables(folder, module, name):
    if not folder.is_dir():
        pytest.skip("NETSIM_TRACES has no such table")
    found = module.FIGURES[0].fit(folder)
    for table, values in found.items():
        assert values == pytest.approx(fitted(name)[table], rel=2e-3)


def rows_of(text):
    """Return the rows of tables in Markdown."""
    return {line for line in text.splitlines() if line.startswith("| ")}


def own_rows(comparison: Accuracy, points, names):
    """Return the rows that a page has of some tables, for some of the points."""
    tables = comparison.summarise(points)
    page = "".join(f"<!-- {comparison.name} {name}: written by netsim reproduce --page -->\n"
                   "<!-- end -->\n" for name in names)
    return rows_of(filled(page, comparison.name, {name: on_page(tables[name]) for name in names}))


@pytest.mark.parametrize("folder", [data("m3")])
def test_the_page_says_what_m3_gives(folder):
    (comparison,) = [find_reproduction("accuracy-m3")]
    points = comparison.compare(folder)
    assert own_rows(comparison, points, ["controls", "sizes"]) <= rows_of(PAGE)
    assert (points["sent_s"] / points["maxmin_s"] - 1).abs().max() < 1e-8


@pytest.mark.parametrize("folder", [data("vidur")])
def test_the_page_says_what_eight_gpus_give(folder, monkeypatch):
    """The other numbers of GPUs would take as long again."""
    monkeypatch.setattr(accuracy_allreduce, "_read", partial(_eight, accuracy_allreduce._read))
    comparison = find_reproduction("accuracy-allreduce")
    points = comparison.compare(folder)
    rows = own_rows(comparison, points, ["all-reduce", "sizes"])
    eight = {row for row in rows if "| 8 |" in row}
    assert len(eight) == 3
    assert eight <= rows_of(PAGE)


def _eight(read, folder):
    points = read(folder)
    return points[(points["kind"] == "all-reduce") & (points["gpus"] == 8)]


@pytest.mark.parametrize("folder", [data("htsim")])
def test_the_page_says_what_8192_hosts_give(folder, monkeypatch):
    """Permutations of 1 and 16 MB, oversubscribed 8:1; incasts are what the fit is of."""
    monkeypatch.setattr(accuracy_htsim, "_permutations", partial(
        _at_8_to_1, accuracy_htsim._permutations))
    points = accuracy_htsim._compare_permutations(folder)
    text = on_page(errors_by(points, ["control", "oversubscription"]))
    page = "<!-- x permutations: written by netsim reproduce --page -->\n<!-- end -->"
    assert text["points"].tolist() == [4, 4]
    assert rows_of(filled(page, "x", {"permutations": text})) <= rows_of(PAGE)


def _at_8_to_1(read, folder):
    return (row for row in read(folder) if row["oversubscription"] == 8)


@pytest.mark.parametrize("folder", [data("htsim")])
def test_the_network_is_that_of_the_public_file(folder):
    """Four times oversubscribed: as many trunks, of the same capacities and latencies."""
    public = read_network(find_file(folder, "leaf_spine_8192_200g_4_to_1.topo"), routing="spray")
    for network in (accuracy_htsim.network_of(200, 4), public):
        rates, count = np.unique(network.capacity / 25e9, return_counts=True)
        assert (network.hosts, rates.tolist(), count.tolist()) == (8192, [1, 16], [16384, 256])
        np.testing.assert_allclose(network.wire.latency, 1e-6)


@pytest.mark.parametrize("folder", [data("m3")])
def test_one_scenario_is_the_same_alone(folder):
    """Agreement with m3's max-min simulator does not depend on what ran before."""
    scenario = read_m3(folder)[7]
    sent, arrived = simulate_scenario(path_of_three(), scenario)
    np.testing.assert_allclose(sent, scenario.maxmin_s, rtol=1e-8)
    np.testing.assert_allclose(arrived - sent, 2e-6, rtol=1e-9)
