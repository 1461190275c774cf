"""``netsim collective``."""

import json

import pytest

ON = ("--on", "big-switch-128-10g")


def test_all_reduce_on_a_switch(netsim):
    """2 (n-1) S/(n B) with B = 1.25 GB/s: 0.75 of 1 GB/s, and busbw is the rate of the ports."""
    done = netsim("collective", "all-reduce", *ON, "--ranks", "6", "--bytes", "1GB", "--single")
    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["size", "algorithm", "time", "algbw", "GB/s", "busbw", "GB/s"],
        ["1", "GB", "ring", "1.333", "s", "0.75", "1.25"]]


def test_a_range_of_sizes(netsim):
    done = netsim("collective", "all-gather", *ON, "--ranks", "5", "--from", "1kB", "--to", "1MB",
                  "--factor", "10", "--algorithm", "direct", "--form", "aggregate")
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:5]] == [
        ["1", "kB"], ["10", "kB"], ["100", "kB"], ["1", "MB"]]
    assert done.stdout.endswith("\nmean busbw: 1.25 GB/s\n")


def test_sizes_up_to_that_of_bytes(netsim):
    """From 8 B, in binary units where they are whole; the last one is there in any case."""
    done = netsim("collective", "all-reduce", "--on", "gpu-cluster-8x8", "--ranks", "16",
                  "--bytes", "5kB")
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:12]] == [
        *([str(2**k), "B"] for k in range(3, 10)), ["1", "KiB"], ["2", "KiB"], ["4", "KiB"],
        ["5", "kB"]]


def test_a_range_says_why_where_the_algorithm_changes(netsim):
    done = netsim("collective", "all-reduce", "--on", "gpu-cluster-8x8", "--from", "1kB",
                  "--bytes", "10GB", "--factor", "1e7", "--algorithm", "auto")
    said = [line for line in done.stdout.splitlines() if "before" in line]
    assert [line.split("/")[0] for line in said] == ["1 kB: double-tree", "10 GB: ring"]


def test_the_rule_says_why(netsim):
    done = netsim("collective", "all-reduce", *ON, "--ranks", "8", "--bytes", "1kB",
                  "--algorithm", "auto", "--servers", "2", "--single")
    assert done.stdout.splitlines()[-1].startswith("1 kB: double-tree/LL, before ")
    assert done.stdout.count(" us") == 6 + 1


def test_the_rule_says_why_where_it_has_no_choice(netsim):
    done = netsim("collective", "all-gather", *ON, "--ranks", "8", "--bytes", "1kB",
                  "--algorithm", "auto", "--single")
    assert done.stdout.splitlines()[-1] == "1 kB: ring: the only one that the model has"


def test_for_programs(netsim):
    table = netsim("collective", "all-to-all", *ON, "--ranks", "4", "--bytes", "4kB", "--csv",
                   "--single")
    assert table.stdout.splitlines() == ["bytes,algorithm,time_s,algbw,busbw",
                                         "4000.0,direct,2.4e-06,1666666666.6666667,1250000000.0"]
    (row,) = json.loads(netsim("collective", "barrier", *ON, "--ranks", "4", "--json").stdout)
    assert row == {"bytes": 0.0, "algorithm": "dissemination", "time_s": 0.0, "algbw": None,
                   "busbw": None}


def test_options_of_the_pattern(netsim):
    """Chunks: (n - 2 + k) S/(k B) = (2 + 10)/10 * 0.8 s."""
    done = netsim("collective", "broadcast", *ON, "--ranks", "4", "--bytes", "1GB",
                  "--set", "chunks=10", "--set", "root=2", "--single")
    assert "960 ms" in done.stdout


def test_a_picture(netsim, here):
    pytest.importorskip("matplotlib")
    done = netsim("collective", "all-reduce", *ON, "--ranks", "4", "--to", "4KiB",
                  "--plot", "busbw.png")
    assert done.stdout.endswith("picture: busbw.png\n")
    assert (here / "busbw.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_no_size(netsim):
    pytest.importorskip("matplotlib")
    done = netsim("collective", "barrier", *ON, "--ranks", "4", "--plot", "none.svg")
    assert done.exit_code == 2
    assert "nothing to draw" in done.stderr


@pytest.mark.parametrize(("words", "message"), [
    (("all-reduse", *ON), "unknown collective 'all-reduse' (did you mean 'all-reduce'?)"),
    (("all-reduce", *ON, "--ranks", "129"), "129 ranks need a host each; network"),
    (("all-reduce", *ON, "--algorithm", "rings"),
     "unknown algorithm of all-reduce 'rings' (did you mean 'ring'?); choose from: auto, direct"),
    (("all-reduce", *ON, "--form", "step"), "unknown form 'step' (did you mean 'steps'?)"),
    (("all-reduce", *ON, "--bytes", "1XB"), "the last size '1XB' has the unknown unit"),
    (("all-reduce", *ON, "--from", "2MB", "--to", "1MB"), "the last size, '1MB', must not be less"),
    (("all-reduce", *ON, "--factor", "1"), "the factor between sizes must be finite and above 1"),
    (("all-reduce", *ON, "--factor", "1.001"), "there can be at most 1,000"),
    (("all-reduce", *ON, "--set", "chunks"), "--set must be OPTION=VALUE"),
    (("all-reduce", *ON, "--set", "form=steps"), "--set cannot give form"),
    (("all-reduce", *ON, "--set", "chunk=2"), "chunk"),
    (("all-reduce", *ON, "--set", "chunks=2"), "all-reduce by ring takes no chunks"),
    (("all-reduce", *ON, "--csv", "--json"), "give either --csv or --json"),
    (("all-reduce", *ON, "--ranks", "6", "--algorithm", "hierarchical", "--set", "group=4"),
     "all-reduce by hierarchical: group must divide the number of ranks"),
])
def test_refused(refused, words, message):
    assert message in refused("collective", *words)
