"""Networks that are fitted to measured times."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import netsim
from netsim.cli.main import main
from netsim.errors import InputError, MissingExtraError
from netsim.studies import calibration, calibration_points
from netsim.traces.measured import Measurement

FIXTURE = Path(__file__).parent.parent / "traces" / "measured" / "all_reduce_4x1.txt"

SIZES = 2.0 ** np.arange(3, 32)


def network_file(tmp_path, text, name="own.toml"):
    path = tmp_path / name
    path.write_text(text)
    return path


SWITCH = 'kind = "big-switch"\nhosts = 8\ncapacity = "400Gbps"\n'

SERVERS = 'kind = "gpu-cluster"\nservers = 2\ngpus = 4\nnvlink = "300GB/s"\nnic = "200Gbps"\n'


def ring_times(n, sizes, launch, efficiency, overhead=0.0, rate=50e9):
    """Launch + 2 (n - 1) (o + S/(n e B))."""
    return launch + 2 * (n - 1) * (overhead + sizes / n / efficiency / rate)


def of(n, sizes, seconds, collective="all-reduce", servers=None):
    return Measurement("own", collective, np.arange(n) if servers is None else servers,
                       np.asarray(sizes, float), np.asarray(seconds, float))


def value(found, parameter, of):
    rows = found.parameters[(found.parameters["parameter"] == parameter)
                            & (found.parameters["of"] == of)]
    return float(rows["value"].iloc[0]) if rows["determined"].all() else None


def test_what_made_the_times_is_found(tmp_path):
    """Two, four and eight ranks: launch 20 us, 0.5 us for each step, and 0.8 of the rate.

    A step crosses two ports of equal latency, so that the latency is part of the overhead. The
    ports of a switch send as much as they receive: they are of one kind.
    """
    given = [of(n, SIZES, ring_times(n, SIZES, 20e-6, 0.8, 0.5e-6)) for n in (2, 4, 8)]
    found = netsim.calibrate(given, network_file(tmp_path, SWITCH))
    assert value(found, "launch", "all messages") == pytest.approx(20e-6, rel=1e-3)
    assert value(found, "overhead", "each step") == pytest.approx(0.5e-6, rel=1e-2)
    assert value(found, "efficiency", "ports") == pytest.approx(0.8, rel=1e-3)
    assert value(found, "latency", "ports") is None
    assert found.held_out_error < 1e-3
    assert set(found.rows["algorithm"]) == {"ring"}


def test_one_number_of_ranks_does_not_determine_the_overhead(tmp_path):
    """14 steps of it are as good as a longer launch."""
    found = netsim.calibrate(of(8, SIZES, ring_times(8, SIZES, 30e-6, 0.9)),
                             network_file(tmp_path, SWITCH))
    assert value(found, "overhead", "each step") is None
    assert value(found, "launch", "all messages") == pytest.approx(30e-6, rel=1e-3)


def test_every_third_size_is_held_out_and_enters_no_fit(tmp_path):
    """Those that are held out take ten times as long, or short: the same parameters."""
    times = ring_times(8, SIZES, 30e-6, 0.9)
    path = network_file(tmp_path, SWITCH)
    found = netsim.calibrate(of(8, SIZES, times), path)
    assert found.rows["held_out"].tolist() == [k % 3 == 2 for k in range(len(SIZES))]
    assert found.errors.iloc[-1]["held_out"] == 9
    for factor in (10, 0.1):
        other = netsim.calibrate(of(8, SIZES, np.where(found.rows["held_out"], factor, 1) * times),
                                 path)
        assert other.parameters.equals(found.parameters)
        assert other.held_out_error == pytest.approx(9, rel=1e-2)


def test_links_that_no_flow_crosses_keep_their_values(tmp_path):
    """A ring per GPU stays on its rail, so that spines are not crossed; links to NICs are."""
    path = network_file(tmp_path, SERVERS + 'latency = "7us"\n')
    found = netsim.calibrate(of(8, SIZES, 2e-4 + SIZES / 50e9, servers=np.repeat([0, 1], 4)), path)
    assert set(found.rows["algorithm"]) == {"ring"}
    assert not found.parameters["of"].str.contains("spine").any()
    kept = ["spine" in name for name in found.network.link_names]
    assert found.network.wire.latency.tolist() == [7e-6 if each else 0.0 for each in kept]


def test_standard_errors(tmp_path):
    """Of a launch with noise of 5 % in 2,100 fitted points: 5 % over the root of 2,100.

    Small messages do not determine the rate.
    """
    sizes = np.tile(SIZES[:10], 300)
    noise = np.exp(0.05 * np.random.default_rng(2).normal(size=3000))
    found = netsim.calibrate(of(8, sizes, 20e-6 * noise), network_file(tmp_path, SWITCH))
    launch, *others = found.parameters.itertuples()
    assert launch.standard_error == pytest.approx(20e-6 * 0.05 / np.sqrt(2100), rel=0.1)
    assert all(np.isnan(each.standard_error) for each in others if not each.determined)


def test_outliers_count_little(tmp_path):
    """One of 20 fitted times is five times too long; the mean would move by 8 %."""
    times = ring_times(8, SIZES, 30e-6, 0.9)
    times[24] *= 5
    found = netsim.calibrate(of(8, SIZES, times), network_file(tmp_path, SWITCH))
    assert value(found, "efficiency", "ports") == pytest.approx(0.9, rel=0.03)


def test_protocols_by_size_of_messages(tmp_path):
    """Up to 1 MiB, messages of 128 KiB: 10 us and 0.2 of the rate; above, 50 us and 0.9."""
    small = SIZES <= 2**20
    times = np.where(small, ring_times(8, SIZES, 10e-6, 0.2), ring_times(8, SIZES, 50e-6, 0.9))
    found = netsim.calibrate(of(8, SIZES, times), network_file(tmp_path, SWITCH))
    first, second = found.network.wire.protocols
    assert 2**17 <= first.upto < 2**18
    assert (first.launch, second.launch) == (pytest.approx(10e-6, rel=0.02),
                                             pytest.approx(50e-6, rel=0.02))
    # Only the product with the efficiency of links shows.
    assert first.efficiency / second.efficiency == pytest.approx(0.2 / 0.9, rel=0.02)
    assert found.held_out_error < 0.01


def test_the_times_of_a_fit_are_those_of_a_run(tmp_path):
    """Of all algorithms, on servers: launches, protocols, overheads, latencies, efficiencies."""
    path = network_file(tmp_path, SERVERS + "spine = 0\n")  # there is one path between two GPUs
    links = calibration_points.Links(netsim.read_network(path))
    kinds = len(links.kinds)
    given = calibration_points.Parameters(
        np.array([2e4, 3e6]), np.array([5e-6, 9e-6, 2e-5]), np.array([0.3, 0.6, 1.0]),
        np.linspace(0.7, 1.0, kinds), np.array([3e-7]), np.linspace(1e-7, 4e-7, kinds))
    network = calibration_points.Links(netsim.read_network(path)).with_values(given)
    for collective, algorithms in calibration_points.ALGORITHMS.items():
        for algorithm in algorithms:
            measured = of(8, [1e3, 1e5, 1e7, 1e9], np.ones(4), collective, np.repeat([0, 1], 4))
            points = calibration_points.points_of(measured, links, algorithm)
            pattern = calibration_points.pattern_of(measured, algorithm)
            run = netsim.collective_times(pattern.pop("name"), network, 8, measured.nbytes,
                                          **pattern)
            np.testing.assert_allclose(run["time_s"], points.times(given), rtol=1e-3,
                                       err_msg=algorithm)


def test_a_ring_of_each_gpu_and_hierarchy_where_rings_are_too_slow(tmp_path):
    """2 servers of 4: rings send 2 * 7/8 S over 4 NICs of 25 GB/s, S/57.1 GB/s at full rates.

    Faster times need an algorithm that sends less over NICs: S over 4 of them, 100 GB/s.
    """
    path, servers = network_file(tmp_path, SERVERS), np.repeat([0, 1], 4)
    for rate, algorithm in ((50e9, "ring"), (90e9, "hierarchical")):
        found = netsim.calibrate(of(8, SIZES, 20e-6 + SIZES / rate, servers=servers), path)
        assert set(found.rows["algorithm"]) == {algorithm}
        assert found.held_out_error < 1e-3
        assert value(found, "efficiency", "nic-* - rail-*") is not None


def test_ranks_of_servers_in_any_order(tmp_path):
    """Launchers may deal ranks out; libraries keep those of a server together."""
    times = 20e-6 + SIZES / 50e9
    found = netsim.calibrate(of(8, SIZES, times, servers=np.tile([0, 1], 4)),
                             network_file(tmp_path, SERVERS))
    assert found.held_out_error < 1e-3
    assert found.patterns["all-reduce of 8 ranks"] == {
        "name": "all-reduce", "algorithm": "ring", "form": "aggregate", "rings": 4, "group": 4}


def test_flows_spread_over_several_paths(tmp_path):
    """From 4 servers of a GPU, on two leaves and two spines of equal rates: a warning says so."""
    path = network_file(tmp_path, 'kind = "leaf-spine"\nleaves = 2\nspines = 2\n'
                        'hosts_per_leaf = 2\ncapacity = "400Gbps"\n')
    times = ring_times(4, SIZES, 20e-6, 0.8)
    with pytest.warns(netsim.NetsimWarning, match='several paths .* unless routing = "spray"'):
        found = netsim.calibrate(of(4, SIZES, times), path)
    assert found.held_out_error < 0.01


def test_the_wrong_shape_is_named(tmp_path):
    """400 Gbps were measured on ports of 100 Gbps."""
    path = network_file(tmp_path, SWITCH.replace("400", "100"))
    with pytest.warns(netsim.NetsimWarning, match="times as fast as the rates .* right shape"):
        netsim.calibrate(of(8, SIZES, ring_times(8, SIZES, 20e-6, 0.9)), path)


def test_few_small_sizes_say_nothing_of_rates(tmp_path):
    """Up to 4 KiB, 3 % of noise: the efficiency is not determined, and stays 1."""
    sizes = SIZES[:10]
    noise = np.exp(0.03 * np.random.default_rng(1).normal(size=10))
    found = netsim.calibrate(of(8, sizes, ring_times(8, sizes, 20e-6, 0.8) * noise),
                             network_file(tmp_path, SWITCH))
    assert value(found, "efficiency", "ports") is None
    assert (found.network.wire.efficiency == 1).all()


@pytest.mark.parametrize(("first", "noise"), [(22, 0.02), (24, 0.05)])
def test_large_sizes_say_nothing_of_launches(tmp_path, first, noise):
    """From 4 or 16 MiB on, the launch is 0, and the efficiency that of the times."""
    sizes = 2.0 ** np.arange(first, 34)
    times = ring_times(4, sizes, 0.0, 0.8) * np.exp(
        noise * np.random.default_rng(1).normal(size=len(sizes)))
    found = netsim.calibrate(of(4, sizes, times), network_file(tmp_path, SWITCH))
    assert found.network.wire.protocols[0].launch == 0
    assert value(found, "efficiency", "ports") == pytest.approx(0.8, rel=2 * noise)
    assert found.held_out_error < 3 * noise


def test_flows_beside_collectives(tmp_path):
    """The launch of large all-reduces is at its bound of 0, below which a flow takes none."""
    sizes = 2.0 ** np.arange(22, 34)
    flows = Measurement("own", "flows", np.arange(2), sizes, sizes / 40e9, ((0, 1),) * 12,
                        np.cumsum(sizes) / 4e9)
    found = netsim.calibrate([flows, of(4, sizes, ring_times(4, sizes, 0.0, 0.8))],
                             network_file(tmp_path, SWITCH))
    assert value(found, "efficiency", "ports") == pytest.approx(0.8, rel=1e-2)


def test_flows_that_meet(tmp_path):
    """Two flows share a port from 0 to 1 s: simulated, at 0.5 of the rate of 50 GB/s."""
    half = 25e9
    measured = Measurement(
        "own", "flows", np.arange(3), np.array([half / 2, half / 2, half, half / 4, half / 8]),
        np.array([1.0, 1.0, 1.0, 0.25, 0.125]), ((0, 1), (2, 1), (0, 1), (0, 2), (1, 2)),
        np.array([0.0, 0.0, 2.0, 4.0, 5.0]))
    found = netsim.calibrate(measured, network_file(tmp_path, SWITCH))
    assert value(found, "efficiency", "ports") == pytest.approx(0.5, rel=1e-3)
    assert found.held_out_error < 1e-3


def test_the_file_is_a_network_with_the_same_predictions(tmp_path):
    """An experiment on it, of the same collective, takes what the table predicts."""
    path = network_file(tmp_path, SWITCH + 'latency = "5us"\noverhead = "5us"\n'
                        'profile = "ethernet-1500"\n')
    found = netsim.calibrate(FIXTURE, path)
    found.save(tmp_path / "fitted.toml")
    text = (tmp_path / "fitted.toml").read_text()
    assert '# all-reduce of 4 ranks: pattern = { name = "all-reduce", algorithm = "ring", ' in text
    assert "Not determined: overhead of each step" in text
    # It is not determined, and would bind: 6 steps over 2 ports of 5 us take longer than measured.
    assert tomllib.loads(text)["latency"] == {"*": "5us", "egress-*": 0.0, "ingress-*": 0.0}
    again = netsim.collective_times("all-reduce", tmp_path / "fitted.toml", 4,
                                    found.rows["bytes"], form="aggregate")
    np.testing.assert_allclose(again["time_s"], found.rows["predicted_s"], rtol=1e-9)
    assert found.held_out_error < 0.02


def test_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = network_file(tmp_path, SWITCH)
    call = ["calibrate", str(FIXTURE), "--network", str(path), "--plot", "fit.png"]
    done = CliRunner().invoke(main, call, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    for text in ("all-reduce of 4  ring", "up to 64 KiB", "efficiency of ports",
                 "not determined: ", 'was fitted as pattern = { name = "all-reduce", ',
                 "network: own-calibrated.toml", "picture: fit.png"):
        assert text in done.output
    assert netsim.read_network("own-calibrated.toml").wire.protocols
    assert (tmp_path / "fit.png").stat().st_size > 10_000
    assert 'launch = "' in Path("own-calibrated.toml").read_text()
    assert "own-calibrated.toml exists, and is replaced" in CliRunner().invoke(main, call).output
    told = json.loads(CliRunner().invoke(main, [*call[:-2], "--json", "--out", "b.toml"]).stdout)
    rows = [row for row in told["rows"] if row["held_out"]]
    assert told["held_out_error"] == pytest.approx(
        np.expm1(np.mean([abs(np.log(row["predicted_s"] / row["measured_s"])) for row in rows])))
    assert told["network"] == "b.toml"


@pytest.mark.parametrize(("measured", "network", "says"), [
    (of(9, SIZES, SIZES), SWITCH, "9 ranks on 9 servers need 9 hosts; .* has 8"),
    (of(5, SIZES, SIZES, servers=np.zeros(5, int)), SERVERS, "5 ranks are on one server; .* 4 GP"),
    (of(2, SIZES[:2], SIZES[:2]), SWITCH, "has 2 sizes; a fit needs three"),
    (of(4, SIZES, SIZES, "barrier"), SWITCH, "own: .* times of 'barrier', but .* has no bytes"),
    ([], SWITCH, "there is nothing measured"),
])
def test_what_cannot_be_fitted(tmp_path, measured, network, says):
    with pytest.raises(InputError, match=says):
        netsim.calibrate(measured, network_file(tmp_path, network))


def test_without_scipy(tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"scipy.*\[fit\]"):
        netsim.calibrate(FIXTURE, network_file(tmp_path, SWITCH))
