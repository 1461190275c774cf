"""`netsim plot`."""

from __future__ import annotations

import sys

import pytest

from tests.pairs import few


@pytest.fixture
def run(netsim):
    pytest.importorskip("matplotlib")
    netsim("run", "fig2.toml", "--set", "allocator=parrot", "--set",
           'record=["coflows", "links"]', "--out", "r")
    return "r"


@pytest.fixture
def comparison(netsim):
    pytest.importorskip("matplotlib")
    netsim("compare", "fig2.toml", "--out", "c")
    return "c"


@pytest.mark.parametrize("kind", few(
    ["timeline", "gantt", "cdf", "slowdown", "utilisation", "cct"], 2))
def test_pictures_of_a_run(netsim, here, run, kind) -> None:
    done = netsim("plot", run, "--kind", kind)
    assert (done.exit_code, done.stderr, done.stdout) == (0, "", f"picture: r/{kind}.pdf\n")
    assert (here / "r" / f"{kind}.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("kind", few(
    ["bars", "cdf", "classes", "slowdown", "timeline", "jct"], 2))
def test_pictures_of_a_comparison(netsim, here, comparison, kind) -> None:
    done = netsim("plot", comparison, "--kind", kind)
    assert (done.exit_code, done.stderr, done.stdout) == (0, "", f"picture: c/{kind}.pdf\n")
    assert netsim("plot", "c/parrot", "--kind", "gantt").exit_code == 0
    assert (here / "c" / "parrot" / "gantt.pdf").is_file()


def test_without_a_kind_and_in_several_formats(netsim, here, run, comparison) -> None:
    assert netsim("plot", run).stdout == "picture: r/timeline.pdf\n"
    assert netsim("plot", comparison).stdout == "picture: c/bars.pdf\n"
    done = netsim("plot", comparison, "--kind", "cdf", "--of", "cct", "--out", "p/a.svg",
                  "--out", "p/a.png", "--out", "a.pdf")
    assert done.stdout.splitlines() == [f"picture: {file}" for file in
                                        ("p/a.svg", "p/a.png", "a.pdf")]
    assert ">CCT</text>" in (here / "p" / "a.svg").read_text()


def test_pictures_are_replaced_with_their_results(netsim, here, comparison) -> None:
    """And that is told of before."""
    assert netsim("plot", comparison).stderr == ""
    assert netsim("plot", comparison).stderr == (
        "note: c/bars.pdf exists, and is replaced; give another --out to keep it\n")
    netsim("plot", "c/parrot", "--kind", "gantt")
    done = netsim("compare", "fig2.toml", "--out", comparison)
    assert (done.exit_code, done.stderr) == (
        0, "note: c holds earlier results, which are replaced at the end of the run and, with "
           "them, bars.pdf, parrot/gantt.pdf; stop it and give another --out to keep them\n")
    assert not (here / "c" / "bars.pdf").exists()


def test_another_picture_has_another_name(netsim, here, run) -> None:
    assert netsim("plot", run, "--kind", "cdf", "--of", "cct").stdout == "picture: r/cdf-cct.pdf\n"
    assert netsim("plot", run, "--kind", "cdf").stdout == "picture: r/cdf.pdf\n"
    assert netsim("plot", run, "--kind", "gantt", "--between", "1s", "2s").stdout == (
        "picture: r/gantt-1s-2s.pdf\n")
    netsim("sweep", "fig2.toml", "--vary", "observe_interval=1ms,10ms", "--vary",
           "allocator=parrot,lccf", "--out", "s")
    assert netsim("plot", "s").stdout == "picture: s/sweep.pdf\n"  # numbers were varied
    done = netsim("plot", "s", "--kind", "sweep", "--x", "observe_interval", "--of", "jct_p95_s")
    assert done.stdout == "picture: s/sweep-jct_p95_s-x=observe_interval.pdf\n"


@pytest.mark.parametrize(("arguments", "message"), [
    (["r", "--kind", "sweep"], "the plot 'sweep' is for a sweep, not for a run; choose from: "),
    (["r", "--kind", "bars"], "the plot 'bars' is for a comparison or a sweep, not for a run; "),
    (["c", "--kind", "gantt"], "the plot 'gantt' is for a run, not for a comparison; choose "),
    (["c", "--kind", "gant"], "unknown plot 'gant'; choose from: bars, cdf, classes, "),
    (["c", "--of", "cct"], "the plot 'bars' has no choice of quantity; leave out 'cct'\n"),
    (["c", "--kind", "cdf", "--of", "x"], "unknown distribution 'x'; choose from: cct, jct"),
    (["c", "--kind", "utilisation"], "links were not recorded; run it again with "
     """--set 'record=["jobs", "coflows", "links"]'\n"""),
    (["c", "--out", "a.xyz"], "a.xyz: the suffix of a plot must be one of .pdf, .png, .svg\n"),
    (["c", "--out", "a.png", "--out", "fig2.toml/a.png"], "fig2.toml/a.png: cannot be written: "),
    (["fig2.toml"], "fig2.toml: is a file, not a folder of results\n"),
    (["nowhere"], "nowhere: no such folder\n"),
    (["."], ".: holds no results: it has none of summary.json, comparison.csv, sweep.json\n"),
])
def test_bad_input(refused, run, comparison, arguments, message) -> None:
    assert refused("plot", *arguments).startswith(message)


def test_a_cluster_without_a_network_has_no_coflows_to_draw(netsim, refused, here) -> None:
    """No record makes a hint that works: it has to run on the fabric."""
    (here / "x.toml").write_text(
        '[cluster]\nservers = 2\ngpus = 1\n[workload]\nformat = "ring-jobs"\nmix = {2 = 1}\n')
    assert netsim("run", "x.toml", "--set", "scheduler=fifo", "--out", "m").exit_code == 0
    assert refused("plot", "m", "--kind", "gantt") == (
        "there are no coflows: jobs ran by the model 'rar-contention', and sent nothing over a "
        "network; `gpus` says which job had which GPU; run it again with --set execution=fabric\n")
    assert netsim("run", "x.toml", "--set", "scheduler=fifo", "--set", "execution=fabric",
                  "--out", "f").exit_code == 0
    assert netsim("plot", "f", "--kind", "gantt").exit_code == 0


def test_without_matplotlib(refused, run, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert refused("plot", run) == (
        "matplotlib is not installed; install it with: pip install 'coflow-netsim[plot]'\n")


def test_the_help_names_all_kinds(netsim) -> None:
    from netsim.plots.pictures import PICTURES

    for command, kinds in (("plot", {*PICTURES["run"], *PICTURES["comparison"]}),
                           ("compare", PICTURES["comparison"])):
        words = netsim(command, "--help").stdout.replace(",", " ").replace(".", " ").split()
        assert set(kinds) <= set(words)
