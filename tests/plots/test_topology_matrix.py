"""Networks of many hosts are drawn as a matrix of their links."""

import itertools

import numpy as np
import pytest

import netsim
from netsim.network.describe import host_layers
from netsim.plots.topology import topology_picture

pytest.importorskip("matplotlib")


def drawn(network):
    graph = network.to_networkx()
    return graph, topology_picture(graph, host_layers(graph))


def test_up_to_64_hosts_there_are_nodes_and_links():
    _, ax = drawn(netsim.leaf_spine(4, 2, 16))
    assert not ax.images
    assert ax.collections


def test_beyond_each_link_is_a_cell():
    """A leaf-spine of 5 x 16 hosts, 5 leaves and 2 spines: 80 + 10 links, each way."""
    graph, ax = drawn(netsim.leaf_spine(5, 2, 16, "10Gbps", uplink="40Gbps"))
    cells = np.asarray(ax.images[0].get_array().filled(np.nan))
    known = cells[~np.isnan(cells)]
    assert len(known) == len(graph.edges) == 2 * (80 + 10)
    assert sorted(set(known.round(6))) == [10, 40]
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        "80 hosts", "5 switches", "2 switches"]


def test_many_nodes_share_cells():
    graph, ax = drawn(netsim.fat_tree(12))
    assert len(graph) > 600
    assert ax.images[0].get_array().shape == (400, 400)


def test_labels_do_not_overlap():
    """Of 128 hosts, 8 leaves and 4 spines, the rows of switches are 8 and 4 of 140 high."""
    _, ax = drawn(netsim.leaf_spine(8, 4, 16))
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert len(boxes) == 3
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert [label.get_text() for label in drawn(netsim.big_switch(100))[1].get_yticklabels()] == [
        "100 hosts", "1 switch"]
