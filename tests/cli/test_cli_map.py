"""``netsim map``."""

import pytest

SMALL = ("map", "gpt-6.7b", "--counts", "4,4,2")


def test_a_mapping_stands_beside_the_optimum(netsim):
    pytest.importorskip("scipy")
    done = netsim(*SMALL, "--nic", "10Gbps", "--intra", "300GB/s")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "gpt-6.7b: 13.4 GB of parameters; 2 stages of 5, 5 replicas" in done.stdout
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["heavy-edge", "heuristic", "72.62", "s", "1.010"] in lines
    assert ["optimal", "optimal", "71.93", "s", "1.000"] in lines
    assert "stage 0 x1, stage 1 x1" in done.stdout


@pytest.mark.parametrize("mapping", ["optimal", "random", "round-robin"])
def test_other_mappings(netsim, mapping):
    pytest.importorskip("scipy")
    done = netsim(*SMALL, "--mapping", mapping, "--stages", "5", "--micro-batches", "4",
                  "--allreduce", "tree", "--seed", "3")
    assert done.exit_code == 0
    assert done.stdout.count("GPUs by stage") == (1 if mapping == "optimal" else 2)


def test_without_the_extra_the_optimum_is_missing(netsim, monkeypatch, refused):
    monkeypatch.setattr("netsim.models.mapping.optimal.find_spec", lambda name: None)
    done = netsim(*SMALL)
    assert done.exit_code == 0
    assert "without the optimum: scipy is not installed" in done.stderr
    assert "heavy-edge" in done.stdout
    assert "coflow-netsim[ilp]" in refused(*SMALL, "--mapping", "optimal")


@pytest.mark.parametrize("stages", [2, 10])
def test_a_picture(netsim, here, stages):
    pytest.importorskip("matplotlib")
    done = netsim(*SMALL, "--stages", str(stages), "--plot", "map.png")
    assert done.exit_code == 0
    assert done.stdout.endswith("picture: map.png\n")
    assert (here / "map.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.filterwarnings("default")
def test_a_time_limit_is_told(netsim):
    pytest.importorskip("scipy")
    done = netsim("map", "bert-large", "--counts", ",".join(["7"] * 9 + ["5", "3", "2"] * 3),
                  "--stages", "9", "--time-limit", "10ms")
    assert done.exit_code == 0
    assert "a gap of" in done.stderr
    assert "time limit, gap" in done.stdout


@pytest.mark.parametrize(("words", "message"), [
    (("--counts", "4,x"), "--counts must be a list of GPUs by server, such as 4,4,2, not '4,x'"),
    (("--counts", "9,1"), "GPUs of a server must be a whole number from 1 to 8, not 9"),
    (("--counts", "1"), "model 'gpt-6.7b' needs at least 2 GPUs"),
    (("--mapping", "heavy"), "unknown mapping 'heavy' (did you mean 'heavy-edge'?)"),
    (("--nic", "0Gbps"), "server: nic must be greater than 0"),
    (("--plot", "map.gif"), "suffix of a plot must be one of .pdf, .png, .svg"),
    (("--allreduce", "star"), "allreduce 'star'; choose from: ring, tree"),
])
def test_refused(refused, words, message):
    assert message in refused(*SMALL, *words)


def test_unknown_model(refused):
    assert "did you mean 'gpt-13b'" in refused("map", "gpt-14b", "--counts", "4")
