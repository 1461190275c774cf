"""Names are drawn as they are: no mathematics of matplotlib's, and no control characters."""

import html
import re
from functools import cache

import networkx as nx
import numpy as np
import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.network.describe import host_layers
from netsim.plots.bars import save_plot, total_jct_bars
from netsim.plots.curves import cdf_curves
from netsim.plots.mapping import mapping_picture
from netsim.plots.pictures import PICTURES
from netsim.plots.prediction import error_histogram
from netsim.plots.report import report_page
from netsim.plots.style import drawable
from netsim.plots.topology import topology_picture
from netsim.text import visible
from tests.examples import ALL
from tests.pairs import but

pytestmark = pytest.mark.usefixtures("matplotlib")

MB = 1e6
RECORD = ["jobs", "coflows", "links", "decisions"]

#: What is mathematics, what is none, and what a terminal or a page takes for something else.
NAMES = ["$x$", "$", r"$\frac{$", "$a$b$", r"a\$b", "x^2_1", "\x1b[2J$\x00$", "<b>&$"]

#: All of that.
WORST = "$\\frac{$\x1b[2J\x00<b>&"

TWO = but(["$x$", WORST], WORST)


def one_port(name):
    return Workload([JobSpec(job, stages=[Stage(f"{name}{job}", [(0, 1, size * MB)])],
                             hosts=range(3), name=name) for job, size in enumerate((1, 2, 6))])


def network(name):
    graph = nx.Graph(name=name)
    for node in (f"{name}a", f"{name}b", f"{name}c"):
        graph.add_edge(node, "switch", capacity=MB)
    return netsim.from_networkx(graph, hosts=[node for node in graph if node != "switch"],
                                name=name)


def cluster(name):
    """A cluster, of whose runs there are all pictures."""
    return netsim.Cluster(gpus=1, topology=network(name), name=name)


@cache
def result_of(name):
    return netsim.simulate(cluster(name), one_port(name), execution="fabric", record=RECORD)


@cache
def compared_as(name):
    return netsim.compare(cluster(name), one_port(name), {name: "maxmin", "other": "sebf"},
                          baseline="other", execution="fabric", record=RECORD)


def written(ax, tmp_path):
    """All text of a picture, without the ends of lines."""
    text = save_plot(ax, tmp_path / "a.svg").read_text()
    return "".join(map(html.unescape, re.findall(r"<text[^>]*>([^<]*)</text>", text)))


def test_a_class_of_a_notebook_is_in_the_legend():
    """By its name alone: matplotlib leaves out labels that begin with an underscore."""
    run = netsim.simulate(network("n"), one_port("job"))
    ax = cdf_curves({"maxmin": run, "__main__:Mine": run})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["alone", "maxmin", "Mine"]


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("kind", PICTURES["run"])
def test_of_a_run(kind, name, tmp_path):
    result = result_of(name)
    text = written(result.plot(kind), tmp_path)
    if kind in ("gantt", "utilisation"):
        assert visible(name)[:6] in text
    save_plot(result.plot(kind), tmp_path / "a.pdf")


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("kind", PICTURES["comparison"])
def test_of_a_comparison(kind, name, tmp_path):
    assert visible(name) in written(compared_as(name).plot(kind), tmp_path)


@pytest.mark.parametrize("name", TWO)
def test_of_a_sweep(name, tmp_path, monkeypatch):
    swept = netsim.sweep({name: network(name), "small": netsim.big_switch(3, MB)}, one_port(name),
                         allocator={name: "maxmin", "other": "sebf"}, seed=[1, 2],
                         observe_interval=[0, 1])
    for kind in PICTURES["sweep"]:
        assert visible(name) in written(swept.plot(kind), tmp_path)
    if not ALL:  # its figures are those above
        monkeypatch.setattr("netsim.plots.report._drawn", lambda figure: "<svg></svg>")
    page = html.unescape(report_page(swept))
    assert visible(name) in page
    assert page.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", but(NAMES, "$x$", "\x1b[2J$\x00$"))
def test_of_other_things(name, tmp_path):
    found = network(name)
    graph = found.to_networkx()
    ax = topology_picture(graph, host_layers(graph))
    assert visible(name) in written(ax, tmp_path)
    assert drawable(f"{name}b") in [text.get_text() for text in ax.texts]
    assert visible(name) in written(mapping_picture(
        {name: (np.array([[1]]), {"compute": np.array([1.0])})}, 8), tmp_path)
    table = netsim.compare(found, one_port(name), {name: "maxmin"}).table.assign(
        scheme=name, work_conservation="")
    assert visible(name) in written(total_jct_bars({name: table, "b": table}), tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_of_predictors(name, tmp_path):
    import pandas as pd

    table = pd.DataFrame({"from": [0.0, 1.0], "to": [1.0, 2.0], "share": [0.5, 0.5]})
    assert visible(name) in written(error_histogram({name: table, "other": table}), tmp_path)
