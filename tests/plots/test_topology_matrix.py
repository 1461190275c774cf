"""Networks of many hosts are drawn with the hosts of a switch together, or as a matrix."""

import itertools

import numpy as np
import pytest

import netsim
from netsim.network.describe import host_layers
from netsim.plots.topology import topology_picture

pytestmark = pytest.mark.usefixtures("matplotlib")


def drawn(network):
    graph = network.to_networkx()
    return graph, topology_picture(graph, host_layers(graph))


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_up_to_64_hosts_there_are_nodes_and_links():
    _, ax = drawn(netsim.leaf_spine(4, 2, 16))
    assert not ax.images
    assert ax.collections


def test_beyond_a_node_stands_for_the_hosts_of_a_switch():
    """A leaf-spine of 5 x 16 hosts, 5 leaves and 2 spines: a line to each leaf, and 5 x 2."""
    _, ax = drawn(netsim.leaf_spine(5, 2, 16, "10Gbps", uplink="40Gbps"))
    assert not ax.images
    assert texts(ax) == ["16 hosts"] * 5 + [f"leaf-{k}" for k in range(5)] + ["spine-0", "spine-1"]
    assert len(ax.collections[0].get_segments()) == 5 + 10
    assert texts(drawn(netsim.big_switch(100))[1]) == ["100 hosts", "switch"]


def test_gpus_of_a_server_are_together_and_so_are_their_nics():
    _, ax = drawn(netsim.gpu_cluster(10))
    names = texts(ax)
    assert names.count("8 hosts") == names.count("8 switches") == 10
    assert [name for name in names if name.startswith("rail")] == [f"rail-{k}" for k in range(8)]


def test_if_too_many_are_left_each_link_is_a_cell():
    """Of a fat-tree of 12 ports, 72 switches have 6 hosts each."""
    graph, ax = drawn(netsim.fat_tree(12))
    cells = np.asarray(ax.images[0].get_array().filled(np.nan))
    assert (~np.isnan(cells)).sum() == len(graph.edges) - 2 * 5 * 72
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        "432 hosts\n(72 x 6)", "72 switches", "72 switches", "36 switches"]


def test_many_nodes_share_cells():
    _, ax = drawn(netsim.torus([25, 25]))
    assert ax.images[0].get_array().shape == (400, 400)


def test_labels_do_not_overlap():
    """Of 65 leaves with 2 hosts, and 2 spines, the rows are 65, 65 and 2 of 132 high."""
    _, ax = drawn(netsim.leaf_spine(65, 2, 2))
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert len(boxes) == 3
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
