"""``netsim topo show``: the table, the picture and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import networkx as nx
import pytest
from click.testing import CliRunner

import netsim
from netsim.cli.main import main
from netsim.errors import MissingExtraError
from netsim.network import TOPOLOGIES, ready_made
from netsim.network.describe import host_layers
from netsim.plots import style
from netsim.plots.topology import _rows, topology_picture


def show(*arguments: str):
    result = CliRunner().invoke(main, ["topo", "show", *arguments], prog_name="netsim")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_options_of_the_network(tmp_path: Path) -> None:
    """A file of a public collection: directed, capacities under another name, no host marked."""
    graph = nx.DiGraph()
    for start, end in ("ab", "bc", "ca"):
        graph.add_edge(start, end, speed=10)
    nx.write_graphml(graph, tmp_path / "g.graphml")
    done = show(str(tmp_path / "g.graphml"), "--set", "directed=false", "--set", "hosts=all",
                "--set", "capacity=speed", "--set", "unit=Gbps")
    assert done.exit_code == 0
    assert re.search(r"^hosts +3\n(.*\n)?links +6, one each way\ncapacity +10 Gbps$", done.stdout,
                     re.MULTILINE)
    refused = show("big-switch-128-10g", "--set", "hots=4")
    assert refused.exit_code == 2
    assert "'hots' (did you mean 'hosts'?)" in refused.stderr
    assert "'hosts' is not a setting" in show("big-switch-128-10g", "--set", "hosts").stderr


def test_the_table() -> None:
    done = show("leaf-spine-128-4to1-10g")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == """\
network           leaf-spine-128-4to1-10g
hosts             128
switches          12 in 2 layers
links             320, one each way
capacity          10 Gbps
bisection         160 Gbps (exact)
oversubscription  4:1
names of hosts    host-0 to host-127
"""


def test_bounds_and_networks_without_switches_are_said_to_be() -> None:
    lines = show("edge-cloud-10x10").stdout.splitlines()
    assert lines[4:] == [
        "capacity          100 Mbps to 10 Gbps",
        "bisection         500 Mbps (at most: least maximum flow over three splits of the hosts)",
        "oversubscription  100:1", "names of hosts    host-0 to host-100"]
    assert "oversubscription  no switches" in show("torus-4x4x4-400g").stdout


@pytest.mark.parametrize("name", sorted(set(ready_made()) - {"fat-tree-k16-10g"}))
def test_every_ready_made_network_can_be_shown(name, tmp_path) -> None:
    picture = tmp_path / "net.svg"
    done = show(name, "--plot", str(picture))
    assert done.exit_code == 0
    assert f"picture           {picture}" in done.stdout
    assert picture.read_text().startswith("<?xml")


def test_files_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "net.toml"
    path.write_text('kind = "ring"\nhosts = 5\n')
    assert "network           net\nhosts             5\n" in show(str(path)).stdout


def test_switches_without_links_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text('{"nodes": [{"id": "a", "host": true}, {"id": "b", "host": true}, {"id": "s"}],'
                    ' "links": [{"source": "a", "target": "b", "capacity": "1Gbps"}]}')
    done = show(str(path), "--plot", str(tmp_path / "net.svg"))
    assert (done.exit_code, done.stderr) == (0, "")
    assert "hosts             2\nswitches          1\n" in done.stdout


@pytest.mark.parametrize(("arguments", "message"), [
    (["ring-8"], "unknown network 'ring-8' (did you mean 'ring-8-100g'?); choose from: big-sw"),
    (["no.gml"], "no.gml: no such file"),
    (["ring-8-100g", "--plot", "a.txt"], "a.txt: the suffix of a plot must be one of"),
])
def test_refused(arguments, message, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = show(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {message}")
    assert not list(tmp_path.iterdir())


def test_every_kind_has_a_line() -> None:
    listed = CliRunner().invoke(main, ["list", "topologies"]).stdout
    for kind in TOPOLOGIES:
        line = next(line for line in listed.splitlines() if line.startswith(f"{kind} "))
        assert line.endswith(".")


# --- the picture ----------------------------------------------------------------------------


def test_rows_of_a_picture() -> None:
    """Switches inside servers below, the cloud above the sites, else as far as from hosts."""
    for net, expected in (
            (netsim.rail_pod(2, 2, 2, intra="1GB/s"),
             {"gpu-0.0": 0, "rail-1": 1, "spine-0": 2, "server-1": -1}),
            (netsim.edge_cloud(3, 2), {"host-0": 0, "site-1": 1, "cloud": 2, "host-6": 0}),
            (netsim.big_switch(2), {0: 0, "switch": 1}),
            (netsim.fat_tree(4), {"edge-0": 1, "agg-0": 2, "core-3": 3})):
        graph = net.to_networkx()
        rows = _rows(graph, host_layers(graph))
        assert {node: rows[node] for node in expected} == expected


def test_wider_lines_carry_more() -> None:
    graph = netsim.leaf_spine(2, 2, 16, "10Gbps").to_networkx()
    ax = topology_picture(graph, host_layers(graph))
    (lines,) = ax.collections[:1]
    widths = sorted(set(lines.get_linewidths()))
    assert len(lines.get_segments()) == graph.number_of_edges() / 2
    assert len(widths) == 2
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["10 Gbps", "80 Gbps"]


@pytest.mark.parametrize("net", [netsim.ring(600), netsim.torus([30, 20]), netsim.torus([3, 3]),
                                 netsim.from_networkx(netsim.ring(2).to_networkx())],
                         ids=lambda net: f"{net.name}-{net.hosts}")
def test_networks_of_hosts_alone(net) -> None:
    graph = net.to_networkx()
    assert topology_picture(graph, host_layers(graph)).get_title() == net.name


def test_without_matplotlib(monkeypatch) -> None:
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"matplotlib is not installed.*\[plot\]"):
        topology_picture(netsim.ring(3).to_networkx(), {})
