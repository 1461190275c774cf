"""Pictures of links: what is drawn, not how it looks."""

import numpy as np
import pytest

import netsim
from netsim import JobSpec, Stage, Workload
from netsim.errors import InputError, MissingExtraError
from netsim.plots import links, style
from netsim.plots.links import link_strips

pytestmark = pytest.mark.usefixtures("matplotlib")

MB = 1e6
NET = netsim.big_switch(3, MB)
RECORD = ["jobs", "coflows", "links"]


def one_port(*sizes):
    """Jobs of one coflow each, of so many MB, all through one port of 1 MB/s from time 0."""
    return Workload([JobSpec(job, stages=[Stage("c", [(0, 1, size * MB)])], hosts=range(3))
                     for job, size in enumerate(sizes)])


@pytest.fixture(scope="module")
def compared():
    """1, 2 and 6 MB on one port end, shared fairly, at 3, 5 and 9 s; smallest first, at 1, 3, 9."""
    return netsim.compare(NET, one_port(1, 2, 6), ["maxmin", "sebf"], record=RECORD)


def texts(items):
    return [item.get_text() for item in items]


def test_strips_show_utilisation_over_time(compared):
    """Egress 0 and ingress 1 are full for 9 s, under both policies."""
    strips = link_strips(compared.results)
    assert texts([ax.yaxis.label for ax in strips]) == ["maxmin", "sebf"]
    for ax in strips:
        image = ax.images[0]
        np.testing.assert_allclose(image.get_array(), np.ones((2, 350)))
        assert image.get_extent() == [0, 9, 1.5, -0.5]
        assert texts(ax.texts) == ["100 %", "100 %", "full"]
    assert strips[-1].get_xlabel() == "time (s)"
    assert strips[-1].figure.get_supxlabel() == (
        "the 2 links in use, of 6; full: share of the time at capacity")


def test_a_strip_averages_what_a_pixel_spans():
    """Of 7 s, 350 pixels, 1 MB/s flows from 0 to 1, 1/2 MB/s from 2.01 to 6.01.

    Of what egress 0 carries, ingress 1 has nothing, and ingress 2 the second part.
    """
    jobs = Workload([
        JobSpec(0, stages=[Stage("c", [(0, 1, MB)])], hosts=range(3)),
        JobSpec(1, 2.01, stages=[Stage("c", [(0, 2, 2 * MB)])], hosts=range(3)),
        JobSpec(2, stages=[Stage("wait", compute_s=7)])])
    result = netsim.simulate(NET, jobs, record=RECORD,
                             events=[{"at": 1.5, "link": "ingress-2", "capacity": MB / 2}])
    ax = link_strips({"a": result})[0]
    assert texts(ax.get_yticklabels()) == ["ingress-2", "egress-0", "ingress-1"]
    assert texts(ax.texts) == ["57 %", "14 %", "14 %", "full"]
    second, top, third = ax.images[0].get_array()
    expected = np.zeros(350)
    expected[:50] = 1
    expected[100], expected[101:300], expected[300] = 0.25, 0.5, 0.25
    np.testing.assert_allclose(top, expected, atol=1e-9)
    np.testing.assert_allclose(second, np.where(np.arange(350) < 75, 0, 2 * expected), atol=1e-9)
    np.testing.assert_allclose(third, np.where(np.arange(350) < 75, expected, 0), atol=1e-9)


def test_only_the_busiest_links_are_drawn(compared):
    strips = link_strips(compared.results, links=1)
    assert strips[0].images[0].get_array().shape == (1, 350)
    assert strips[-1].figure.get_supxlabel().startswith("the busiest link, of 6; ")


def test_links_have_names(compared):
    """Each is as busy: the order is theirs."""
    ax = link_strips(compared.results)[0]
    assert texts(ax.get_yticklabels()) == ["egress-0", "ingress-1"]
    assert ax.get_yticks().tolist() == [0, 1]


def test_all_links_are_called_that():
    every = Workload([JobSpec(0, stages=[Stage("c", [(0, 1, MB), (1, 0, MB)])], hosts=range(2))])
    result = netsim.simulate(netsim.big_switch(2, MB), every, record=RECORD)
    assert link_strips({"a": result})[-1].figure.get_supxlabel().startswith("all 4 links; ")


def test_strips_need_links():
    with pytest.raises(InputError, match="links were not recorded"):
        link_strips({"a": netsim.simulate(NET, one_port(1))})


# --- which are on top, and together ----------------------------------------------------------


def test_the_link_that_is_full_is_above_one_that_carries_more():
    """2 MB take 2 s on a slow uplink, which is full; 12 MB take 2 s on host 2's fast link."""
    net = netsim.leaf_spine(2, 1, 2, 8 * MB, uplink=MB)
    jobs = Workload([JobSpec(0, stages=[Stage("c", [(0, 2, 2 * MB), (2, 3, 12 * MB)])],
                             hosts=range(4))])
    ax = link_strips({"a": netsim.simulate(net, jobs, record=RECORD)})[0]
    assert texts(ax.get_yticklabels())[:2] == ["leaf-0->spine-0", "spine-0->leaf-1"]
    assert texts(ax.texts)[:2] == ["100 %", "100 %"]


@pytest.fixture(scope="module")
def on_servers():
    """Two servers of four GPUs; GPU 0 sends to GPU 1 for 3 s, GPU 2 to GPU 3 for 1 s."""
    jobs = Workload([JobSpec(job, stages=[Stage("c", [(2 * job, 2 * job + 1, size * MB)])],
                             hosts=range(8)) for job, size in enumerate((3, 1))])
    return netsim.simulate(netsim.gpu_cluster(2, gpus=4, nvlink=MB, nic=MB), jobs, record=RECORD)


def test_equal_links_share_a_row_if_there_are_too_many(on_servers):
    """The row shows the one that is used most, and the range of the times at capacity."""
    ax = link_strips({"a": on_servers}, links=3)[0]
    assert texts(ax.get_yticklabels()) == ["gpu-0.*->server-0 (2)", "server-0->gpu-0.* (2)"]
    assert texts(ax.texts) == ["33 to 100 %", "33 to 100 %", "full"]
    np.testing.assert_allclose(ax.images[0].get_array(), np.ones((2, 350)))
    assert ax.figure.get_supxlabel().startswith("4 links in 2 groups; ")
    apart = link_strips({"a": on_servers}, links=4)[0]
    assert texts(apart.texts) == ["100 %", "100 %", "33 %", "33 %", "full"]


def test_the_busiest_groups_are_drawn(on_servers):
    ax = link_strips({"a": on_servers}, links=1)[0]
    assert texts(ax.get_yticklabels()) == ["gpu-0.*->server-0 (2)"]
    assert ax.figure.get_supxlabel().startswith("the busiest of 2 groups of 4 links; ")


def test_failed_links_are_hatched_and_what_carries_next_to_nothing_is_left_out():
    """Of two ways, one fails from 2 to 4 s; a byte passes on another link."""
    net = netsim.leaf_spine(2, 2, 2, capacity=MB)
    jobs = Workload([JobSpec(0, stages=[Stage("c", [(0, 2, 8 * MB)])], hosts=range(4)),
                     JobSpec(1, stages=[Stage("c", [(1, 3, 1)])], hosts=range(4))])
    events = [{"at": at, "kind": kind, "link": f"leaf-0->spine-{k}"}
              for k in range(2) for at, kind in ((2, "fail"), (4, "repair"))]
    result = netsim.simulate(net, jobs, record=RECORD, events=events[:2])
    ax = link_strips({"a": result})[0]
    names = texts(ax.get_yticklabels())
    assert "leaf-0->spine-0" in names
    assert "host-1->leaf-0" not in names
    hatched = [each for each in ax.collections if each.get_hatch() and len(each.get_paths())]
    [path] = [path for each in hatched for path in each.get_paths()]
    low, high = path.vertices.min(axis=0), path.vertices.max(axis=0)
    assert (low[0], high[0]) == pytest.approx((2, 4))
    assert low[1] + 0.5 == names.index("leaf-0->spine-0")
    assert texts(ax.get_legend().get_texts())[-1] == "failed"
    used = netsim.link_utilisation(result).set_index("link")
    assert used.loc["leaf-0->spine-0", "busy"] < 1


def test_the_legend_is_within_the_figure():
    """Beside axes with long names of links, and shares."""
    every = Workload([JobSpec(0, stages=[Stage("c", [(0, 1, MB)])], hosts=range(2))])
    result = netsim.simulate(netsim.big_switch(2, MB), every, record=RECORD)
    ax = link_strips({"a": result})[0]
    ax.figure.draw_without_rendering()
    assert ax.get_legend().get_window_extent().x0 >= 0


def test_links_of_other_capacities_and_names_stay_apart():
    names = ["a->b", "a->c", "x-1->y", "x-2->y", "gpu-4.0->nic-4.0", "gpu-4.1->nic-4.1",
             "egress-1", "egress-2"]
    capacity = dict.fromkeys(names, 1.0)
    assert [row.name for row in links._groups(capacity)] == [
        "a->b", "a->c", "x-*->y (2)", "gpu-4.*->nic-4.* (2)", "egress-1", "egress-2"]
    capacity["x-1->y"] = 2.0
    assert [row.name for row in links._groups({link: capacity[link] for link in names[2:4]})] == [
        "x-1->y", "x-2->y"]


def test_shares_are_rounded_neither_to_nothing_nor_to_all():
    assert [links._percent(share) for share in (0, 0.001, 0.5, 0.999, 1)] == [
        "0", "1", "50", "99", "100"]


def test_without_matplotlib(compared, monkeypatch):
    monkeypatch.setattr(style, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"matplotlib is not installed.*\[plot\]"):
        link_strips(compared.results)
