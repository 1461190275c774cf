"""All pictures, by name: of runs, comparisons and sweeps."""

import dataclasses
import math
import re
from typing import ClassVar

import pandas as pd
import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.edge.registry import FabricTransport
from netsim.errors import InputError, MissingExtraError, NotRecordedError, UnknownNameError
from netsim.plots import style
from netsim.plots.bars import save_plot
from netsim.plots.gantt import gantt
from netsim.plots.pictures import ALIASES, PICTURES, check_picture, draw_picture
from netsim.results.result import EDGE_TABLES
from tests.pairs import but

pytestmark = pytest.mark.usefixtures("matplotlib")

MB = 1e6
NET = netsim.big_switch(3, MB)
RECORD = ["jobs", "coflows", "links", "decisions"]

ALL = [(what, kind, of) for what, pictures in PICTURES.items()
       for kind, picture in pictures.items() for of in picture.of]

#: The quantities of a kind are drawn alike.
ONE_OF_A_KIND = {case[:2]: case for case in reversed(ALL)}.values()


def blank(**options):
    """Make a figure of one's own."""
    from matplotlib.figure import Figure

    return Figure(**options)


def one_port(*sizes):
    return Workload([JobSpec(job, stages=[Stage("c", [(0, 1, size * MB)])], hosts=range(3))
                     for job, size in enumerate(sizes)])


@dataclasses.dataclass
class SweepOf:
    """What pictures use of a sweep."""

    table: pd.DataFrame
    grid: ClassVar = {"n": [1, 2], "m": [3, 4]}
    columns = ("n",)

    def as_shown(self):
        return self

    def means(self, metrics):
        return self.table

    def pooled(self, column, by):
        return {f"n {n}": [1.0 * n, 2.0] for n in self.table["n"]}


@pytest.fixture(scope="module")
def things():
    """One of each that there are pictures of, on a cluster, where there are all tables."""
    cluster = netsim.Cluster(gpus=[1, 1], nic=MB)
    jobs = [JobSpec(job, pattern="ring-all-reduce", ranks=2, nbytes=size * MB)
            for job, size in enumerate((1, 2, 6))]
    compared = netsim.compare(cluster, jobs, ["maxmin", "sebf"], scheduler="fifo",
                              execution="fabric", record=RECORD)
    _, metrics = zip(*PICTURES["sweep"]["sweep"].of.items(), strict=True)
    assert set(metrics) == {"jobs"}
    means = pd.DataFrame({"n": [1, 2], "runs": [1, 1], "seed": [0, 0]} | {
        key: [2.0, 3.0] for key in PICTURES["sweep"]["sweep"].of})
    return {"run": compared.results["sebf"], "comparison": compared,
            "sweep": SweepOf(means), "network": NET, "workload": one_port(1, 2)}


@pytest.fixture(scope="module")
def on_edge():
    """A comparison of schedulers of an edge-cloud, with constant delays."""
    job = netsim.EdgeJob(id=0, compute_s=1, worker_type="a", upload_s=1, cloud_upload_s=100)
    return netsim.compare(netsim.EdgeCloud([["a"]]), netsim.EdgeWorkload([job]),
                          schedulers=["a-online", "cloud-only"])


def thing_of(things, on_edge, what, kind, of):
    """Return the thing that has what a picture needs."""
    if PICTURES[what][kind].of[of] == "computations":
        ranked = netsim.Stage("s", [(0, 1, MB)], compute_s=1, ranks=[0, 1])
        return netsim.simulate(NET, [JobSpec(0, stages=[ranked])], record=["computations"])
    if kind == "scatter":  # which is of two settings
        means = things[what].table
        return SweepOf(means.assign(m=[3, 4])[["m", *means]])
    if PICTURES[what][kind].of[of] not in EDGE_TABLES:
        return things[what]
    return on_edge if what == "comparison" else on_edge.results["a-online"]


@pytest.mark.parametrize(("what", "kind", "of"), but(ALL, *ONE_OF_A_KIND))
def test_each_is_drawn_and_written(things, on_edge, what, kind, of, tmp_path, matplotlib):
    ax = draw_picture(thing_of(things, on_edge, what, kind, of), kind, what, of or None)
    assert save_plot(ax, tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert ax.figure.get_figwidth() == (7 if what == "network" else style.WIDTH_IN)
    sizes = {text.get_fontsize() for text in ax.figure.findobj(matplotlib.text.Text)
             if text.get_text() and text.get_visible()}
    assert min(sizes) >= 6.5


def test_the_first_is_drawn_if_no_kind_is_given(things):
    assert draw_picture(things["run"], None, "run").get_ylabel() == "active jobs"
    assert things["run"].plot().get_ylabel() == "active jobs"
    assert things["comparison"].plot().get_xlabel().startswith("total JCT")
    assert things["run"].plot("cdf").get_xlabel() == "JCT"
    assert things["run"].plot("cdf", of="cct").get_xlabel() == "CCT"
    assert things["comparison"].plot("cdf").get_xlabel() == "JCT"


@pytest.mark.parametrize(("alias", "kind", "of"), [
    (alias, *meant) for alias, meant in ALIASES.items()])
def test_other_names_of_kinds(things, alias, kind, of):
    assert check_picture(alias, "comparison") == check_picture(kind, "comparison", of)
    assert things["comparison"].plot(alias).get_xlabel() == (
        things["comparison"].plot(kind, of).get_xlabel())


def test_what_there_is_no_picture_of(things):
    message = re.escape("unknown plot 'gant' (did you mean 'gantt'?); choose from: cdf, gantt, "
                        "gpus, slowdown, timeline, usage, utilisation")
    with pytest.raises(UnknownNameError, match=message):
        things["run"].plot("gant")
    with pytest.raises(InputError, match=re.escape(
            "the plot 'bars' is for a comparison or a sweep, not for a run; choose from: cdf, ")):
        things["run"].plot("bars")
    with pytest.raises(InputError, match=r"'sweep' is for a sweep, not for a comparison; choose"):
        things["comparison"].plot("sweep")
    with pytest.raises(InputError, match=r"'gantt' is for a run, not for a comparison; choose"):
        things["comparison"].plot("gantt")
    with pytest.raises(InputError, match=r"'slowdown' has no choice of quantity; leave out 'cct'"):
        things["run"].plot("slowdown", of="cct")
    with pytest.raises(UnknownNameError, match=r"unknown table 'cct'.*: coflows, ranks, training"):
        things["run"].plot("gantt", of="cct")
    with pytest.raises(InputError, match=r"'utilisation' needs training: only runs on an edge-cl.*"
                                         r"; choose from: cdf, gantt \(of coflows\), gpus, "
                                         r"slowdown, timeline, usage, utilisation \(of links\)$"):
        things["run"].plot("utilisation", of="workers")
    with pytest.raises(UnknownNameError, match=r"unknown distribution .*'fct'.*: cct, jct"):
        things["run"].plot("cdf", of="fct")
    with pytest.raises(UnknownNameError, match=r"unknown metric 'jct'.*: cct_mean_s, "):
        draw_picture(things["sweep"], "bars", "sweep", "jct")


def test_missing_records_are_known_before_the_run():
    message = "the plot {!r} needs {} recorded: record = [\"jobs\", \"{}\"]"
    for kind, of, needs in (("links", None, "links"), ("utilisation", None, "links"),
                            ("cct", None, "coflows"), ("cdf", "cct", "coflows"),
                            ("slowdown", None, "coflows")):
        with pytest.raises(InputError, match=re.escape(message.format(kind, needs, needs))):
            check_picture(kind, "comparison", of, ["jobs"])
    for kind in ("bars", "jct", "cdf", "timeline", None):
        check_picture(kind, "comparison", record=[])


def test_pictures_of_gpus_are_of_clusters():
    """GPUs need no recording; where there are none, the message offers what can be drawn."""
    check_picture("usage", "comparison", record=["jobs"])
    compared = netsim.compare(NET, one_port(1), ["maxmin"])
    for kind in ("gpus", "usage"):
        with pytest.raises(InputError, match=re.escape(
                f"the plot '{kind}' needs gpus: only runs on a cluster have them; choose from: "
                "cdf, gantt (of coflows or ranks), slowdown, timeline, utilisation (of links)")):
            compared.results["maxmin"].plot(kind)
    with pytest.raises(InputError, match="'usage' needs gpus: only runs on a cluster"):
        compared.plot("usage")


def test_usage_of_a_comparison_counts_what_is_asked_for(things):
    assert things["comparison"].plot("usage").get_ylabel() == "GPUs held"
    assert things["comparison"].plot("usage", of="running").get_ylabel() == "GPUs running"
    with pytest.raises(UnknownNameError, match=r"unknown count of GPUs 'jct'.*: held, running"):
        things["comparison"].plot("usage", of="jct")


OFFERED = r"; choose from: cdf \(of jct\), gantt \(of training\), timeline, utilisation \(of "


@pytest.mark.parametrize(("kind", "of", "needs"), [
    ("gantt", "coflows", "coflows"), ("slowdown", None, "coflows"), ("cdf", "cct", "coflows"),
    ("cct", None, "coflows"), ("utilisation", "links", "links"), ("links", None, "links")])
def test_pictures_of_an_edge_cloud_that_cannot_be(on_edge, kind, of, needs):
    """The message offers what can be drawn, and that is drawn."""
    with pytest.raises(InputError, match=f"the plot '{kind}' needs {needs}: a run on an edge-clo"
                                         rf"ud has none.*{OFFERED}workers\)$"):
        on_edge.results["a-online"].plot(kind, of)
    for offered in ("cdf", "gantt", "timeline", "utilisation"):
        assert on_edge.results["a-online"].plot(offered) is not None


def test_comparisons_of_an_edge_cloud(on_edge):
    for kind in ("classes", "slowdown", "links", "cct"):
        with pytest.raises(InputError, match=r"choose from: bars, cdf \(of jct\), timeline, utili"
                                             r"sation \(of workers\)$"):
            on_edge.plot(kind)
    for kind in ("bars", "cdf", "timeline", "utilisation"):
        assert on_edge.plot(kind) is not None


class OwnLinks(FabricTransport):
    """A transport of one's own, with links."""


@pytest.mark.parametrize("transport", ["fabric", OwnLinks()], ids=["fabric", "own"])
def test_links_of_an_edge_cloud_whose_links_are_shared(transport):
    """By what there is, not by a name."""
    job = netsim.EdgeJob(id=0, compute_s=1, worker_type="a", upload_s=1, chunk_bytes=1e6,
                         cloud_upload_s=100)
    result = netsim.simulate(netsim.EdgeCloud([["a"]]), [job], transport=transport,
                             record=["links"])
    assert "busiest link, of 6" in result.plot("utilisation").figure.get_supxlabel()
    assert result.plot("utilisation", "workers").get_ylabel() == "workers in training"
    with pytest.raises(InputError, match=r"gantt \(of training\), timeline, utilisation$"):
        result.plot("slowdown")
    with pytest.raises(NotRecordedError, match=r"^decisions were not recorded; simulate with "):
        result.decisions  # noqa: B018


def test_nothing_to_draw():
    stopped = netsim.compare("parrot-fig2", "parrot-fig2", ["parrot", "lccf"], until=1)
    computing = netsim.compare(NET, Workload([JobSpec(0, stages=[Stage("w", compute_s=1)])]),
                               ["maxmin"], record=RECORD)
    in_no_time = netsim.compare(NET, one_port(0), ["maxmin"])
    for kind, nothing in (("cct", stopped), ("cct", in_no_time), ("cct", computing),
                          ("classes", stopped), ("classes", computing), ("links", computing),
                          ("slowdown", stopped), ("cdf", stopped)):
        with pytest.raises(InputError, match="nothing to draw"):
            nothing.plot(kind)
    with pytest.raises(InputError, match="links were not recorded"):
        stopped.plot("utilisation")
    with pytest.raises(InputError, match="links were not recorded"):
        stopped.results["parrot"].plot("utilisation")


def test_without_matplotlib(things, on_edge, monkeypatch):
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    for what, kind, of in ALL:
        with pytest.raises(MissingExtraError, match=r"matplotlib is not installed.*\[plot\]"):
            draw_picture(thing_of(things, on_edge, what, kind, of), kind, what, of or None)
    assert math.isfinite(things["comparison"].table["jct_total_s"][0])


@pytest.mark.parametrize("suffix", [".pdf", ".svg", ".png"])
def test_files_are_the_same_each_time_and_text_stays_text(things, suffix, tmp_path,
                                                          monkeypatch, matplotlib):
    before = dict(matplotlib.rcParams)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")  # what matplotlib takes for now
    first = save_plot(things["comparison"].plot("cdf"), tmp_path / f"a{suffix}").read_bytes()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "2000000000")
    assert save_plot(things["comparison"].plot("cdf"), tmp_path / f"b{suffix}"
                     ).read_bytes() == first
    assert dict(matplotlib.rcParams) == before
    if suffix == ".svg":
        assert ">share of jobs</text>" in first.decode()
    if suffix == ".pdf":
        assert b"/FontFile2" in first  # a TrueType font
        assert b"/Type3" not in first


# --- on axes of one's own --------------------------------------------------------------------


@pytest.mark.parametrize(("what", "kind", "of"), ALL)
def test_each_is_drawn_on_axes_that_are_given(things, on_edge, what, kind, of):
    """They get one panel, and their figure keeps its size."""
    thing = thing_of(things, on_edge, what, kind, of)
    if (what, kind, of) == ("comparison", "utilisation", "links"):
        thing = dataclasses.replace(thing, results={"sebf": thing.results["sebf"]})
    figure = blank(figsize=(2.0, 3.0))
    ax, other = figure.subplots(2)
    before = len(figure.axes)
    assert draw_picture(thing, kind, what, of or None, ax) is ax
    assert ax.has_data()
    assert not other.has_data()
    assert len(figure.axes) == before
    assert figure.get_size_inches().tolist() == [2.0, 3.0]


def test_axes_of_ones_own_have_the_colours_of_ones_own_style(things, matplotlib):
    """Text and lines in its colour, but not numbers on bars; in the default style, netsim's own."""
    for name, expected in (("default", style.INK), ("dark_background", "#ffffff")):
        with matplotlib.style.context(name):
            bars, gpus = blank().subplots(2)
            things["comparison"].plot("bars", ax=bars)
            things["run"].plot("gpus", ax=gpus)
            texts = [bars.xaxis.label, *bars.texts, *bars.get_yticklabels(), gpus.yaxis.label]
            assert {matplotlib.colors.to_hex(text.get_color()) for text in texts} == {expected}
            assert matplotlib.colors.to_hex(bars.spines["left"].get_edgecolor()) == expected
            assert gpus.texts
            assert {text.get_color() for text in gpus.texts} <= {"white", style.INK}
            alone = things["comparison"].plot("bars")  # on a figure of netsim's
            assert alone.xaxis.label.get_color() == style.INK


def test_of_several_panels_axes_get_the_one_that_is_named(things):
    names = {of: things["run"].plot("timeline", of, ax=blank().subplots()).get_ylabel()
             for of in (None, "coflows", "decisions")}
    assert names == {None: "active jobs", "coflows": "active coflows", "decisions": "decisions"}
    assert things["run"].plot("usage", "waiting", ax=blank().subplots()
                              ).get_ylabel() == "jobs waiting"
    assert len(things["run"].plot("timeline", "coflows").figure.axes) == 1
    assert len(things["run"].plot("timeline").figure.axes) == 3
    with pytest.raises(UnknownNameError, match=r"unknown panel 'links'.*: coflows, decisions, j"):
        things["run"].plot("timeline", "links")


def test_what_no_single_axes_can_have(things):
    with pytest.raises(InputError, match=re.escape(
            "utilisation of links has a panel for each of 2 policies, and ax is one panel: draw "
            "one of the results, such as comparison.results['maxmin']")):
        things["comparison"].plot("utilisation", ax=blank().subplots())
    for kind in ("bars", "sweep", "cdf", "scatter"):
        with pytest.raises(InputError, match=r"^col would need several panels, and ax is one"):
            draw_picture(things["sweep"], kind, "sweep", ax=blank().subplots(), col="n")


def test_what_are_no_axes(things):
    figure = blank()
    panels = figure.subplots(2)
    for given, said in ((panels, "not ndarray: give one of its axes, such as ax[0]"),
                        (figure, "not Figure: plt.subplots() returns a figure and its axes"),
                        ("top", "not str: plt")):
        message = re.escape(f"ax must be an Axes of matplotlib, {said}")
        with pytest.raises(InputError, match=message):
            things["run"].plot("cdf", ax=given)
        with pytest.raises(InputError, match=message):
            gantt(things["run"], given)


def test_a_gantt_chart_and_the_links_share_an_axis_of_time(things):
    figure = blank(figsize=(4.0, 4.0), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    things["run"].plot("gantt", ax=above)
    things["run"].plot("utilisation", ax=below)
    figure.draw_without_rendering()
    places = [ax.get_position().intervalx.tolist() for ax in (above, below)]
    assert places[0] == pytest.approx(places[1])
    assert above.get_xlim() == below.get_xlim()


def test_rows_are_named_where_there_is_room():
    jobs = [JobSpec(k, stages=[Stage("c", [(0, 1, MB)])], hosts=range(3)) for k in range(30)]
    result = netsim.simulate(NET, jobs)
    few = result.plot("gantt", ax=blank(figsize=(4, 2)).subplots())
    assert [text.get_text() for text in few.get_yticklabels()] == [
        str(job) for job in range(0, 30, 2)]
    assert len(result.plot("gantt").get_yticks()) == 30


# --- networks and workloads ------------------------------------------------------------------


def test_a_workload_shows_arrivals_and_sizes():
    jobs = Workload([JobSpec(job, job, iterations=2, pattern="all-to-all", ranks=2, nbytes=size)
                     for job, size in enumerate((1000, 1000, 4000))])
    arrived = jobs.plot()
    sizes = arrived.figure.axes[1]
    assert arrived.lines[0].get_xydata().tolist() == [[0, 0], [0, 1], [1, 2], [2, 3]]
    sent = netsim.simulate(NET, jobs).jobs["bytes"]
    assert sizes.lines[0].get_xdata().tolist() == [sent[0], *sorted(sent)]
    assert sizes.lines[0].get_ydata().tolist() == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert len(jobs.plot("sizes").figure.axes) == 1


def test_a_workload_without_bytes_shows_arrivals():
    computing = Workload([JobSpec(0, stages=[Stage("w", compute_s=1)])])
    assert len(computing.plot().figure.axes) == 1
    with pytest.raises(InputError, match="no job sends any bytes; of='arrivals' draws"):
        computing.plot("sizes")


def test_a_workload_of_an_edge_cloud_shows_the_time_of_training():
    jobs = netsim.EdgeWorkload([netsim.EdgeJob(id=k, chunks=k + 1, compute_s=2, worker_type="a")
                                for k in range(2)])
    assert jobs.plot("sizes").lines[0].get_xdata().tolist() == [2, 2, 4]
    assert jobs.plot().get_ylabel() == "jobs arrived"


def test_a_network_is_drawn_in_one_call():
    ax = blank().subplots()
    assert NET.plot(ax=ax) is ax
    assert NET.plot().get_title() == NET.name
