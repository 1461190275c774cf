"""Jobs with mixed parallelism: times of an iteration, graphs and mappings, exactly."""

import json

import numpy as np
import pytest

from netsim import ModelStage, ParallelModel
from netsim.models.iteration_time import alpha_max, alpha_min_bound, iteration_parts, per_iteration
from netsim.models.mapping import (
    Mapper,
    allreduce_edges,
    consolidated_counts,
    exhaustive_mapping,
    heavy_edge,
    heavy_edge_servers,
    job_graph,
    optimal_mapping,
)
from netsim.models.servers import ServerKind
from netsim.schedulers.competitive import competitive_ratio

EXACT = {"rel": 1e-9, "abs": 0}


def read(path):
    given = json.loads(path.read_text())
    return given, models_of(given), kind_of(given)


def kind_of(given):
    cluster = given["cluster"]
    return ServerKind(cluster["gpus_per_server"], cluster["nic_bytes_per_s"],
                      cluster["intra_server_bytes_per_s"])


def models_of(given):
    return {config["name"]: ParallelModel([
        ModelStage(stage["replicas"], stage["forward_s"], stage["backward_s"],
                   stage["in_bytes_per_replica"], stage["out_bytes_per_replica"],
                   stage["param_bytes"])
        for stage in config["stages"]], {"double_tree": "tree"}.get(*[config["allreduce"]] * 2),
        config["name"]) for config in given["configs"]}


def test_times_of_an_iteration(asrpt_per_iteration_case):
    given, models, kind = read(asrpt_per_iteration_case)
    assert given["placements"]
    for case in given["placements"]:
        model, placement = models[case["config"]], case["replicas_by_server_then_stage"]
        parts = iteration_parts(model, placement, kind)
        for part in case["expected"]["parts"]:
            at = part["server"], part["stage"]
            assert parts.compute_s[at] == pytest.approx(part["compute_s"], **EXACT)
            assert parts.communication_s[at] == pytest.approx(part["communication_s"], **EXACT)
            assert parts.allreduce_s[at] == pytest.approx(part["allreduce_s"], **EXACT)
        alpha = case["expected"]["per_iteration_s"]
        assert per_iteration(model, placement, kind) == pytest.approx(alpha, **EXACT)


def test_extremes(asrpt_per_iteration_case):
    given, models, kind = read(asrpt_per_iteration_case)
    assert given["bounds_by_config"]
    for name, expected in given["bounds_by_config"].items():
        model = models[name]
        most, least = Mapper(kind).extremes(model)
        assert most == alpha_max(model, kind) == pytest.approx(expected["alpha_max_s"], **EXACT)
        assert list(consolidated_counts(model, kind)) == expected["fewest_servers_counts"]
        assert least == pytest.approx(expected["alpha_tilde_min_s"], **EXACT)
        assert (most / least >= 1.5) == expected["communication_heavy_at_1_5"]
        assert alpha_min_bound(model, kind) == pytest.approx(
            expected["alpha_lower_bound_all_intra_s"], **EXACT)


def test_graphs(asrpt_mapping_case):
    given, models, _ = read(asrpt_mapping_case)
    for name, expected in given["graph_edges_vertex_vertex_bytes"].items():
        edges = sorted((min(u, v), max(u, v), weight)
                       for u, v, weight in job_graph(models[name]).edges.data("weight"))
        assert [edge[:2] for edge in edges] == [tuple(edge[:2]) for edge in expected]
        assert [edge[2] for edge in edges] == pytest.approx([edge[2] for edge in expected],
                                                            **EXACT)
    for members, trees in given["double_tree_edges_by_size"].items():
        found = sorted((u, v) for u, v, _ in allreduce_edges(int(members), "tree"))
        assert found == sorted(map(tuple, trees["first"] + trees["second"]))


def test_heavy_edge(asrpt_mapping_case):
    given, models, kind = read(asrpt_mapping_case)
    assert given["cases"]
    for case in given["cases"]:
        model, counts, expected = models[case["config"]], case["gpus_by_server"], case["expected"]
        found = heavy_edge(model, counts, kind)
        assert found.placement.tolist() == expected["replicas_by_server_then_stage"]
        assert found.alpha_s == pytest.approx(expected["per_iteration_s"], **EXACT)
        servers = heavy_edge_servers(model, counts, kind)
        assert servers.tolist() == expected["server_of_vertex"]
        cut = sum(weight for u, v, weight in job_graph(model).edges.data("weight")
                  if servers[u] != servers[v])
        assert cut == pytest.approx(expected["cut_bytes"], **EXACT)


def test_optimum(asrpt_optimal_case):
    pytest.importorskip("scipy")
    given, models, kind = read(asrpt_optimal_case)
    assert given["cases"]
    for case in given["cases"]:
        model, counts, expected = models[case["config"]], case["gpus_by_server"], case["expected"]
        best = pytest.approx(expected["optimal_per_iteration_s"], rel=1e-6, abs=0)
        found = optimal_mapping(model, counts, kind)
        assert (found.status, found.gap) == ("optimal", 0)
        assert found.alpha_s == best
        assert exhaustive_mapping(model, counts, kind).alpha_s == best
        listed = np.array(expected["one_optimal_replicas_by_server_then_stage"])
        assert per_iteration(model, listed, kind) == best
        assert heavy_edge(model, counts, kind).alpha_s == pytest.approx(
            expected["heavy_edge_per_iteration_s"], rel=1e-6, abs=0)


def test_competitive_ratio(asrpt_competitive_case):
    cases = json.loads(asrpt_competitive_case.read_text())["cases"]
    assert cases
    for case in cases:
        ratio = competitive_ratio(
            rho=case["rho"], tau=case["tau"], gpus=case["cluster_gpus"],
            most_gpus=case["largest_job_gpus"], alpha_max=case["alpha_max_s"],
            alpha_min=case["alpha_min_s"], error=case["mean_abs_error_iterations"])
        assert ratio == pytest.approx(case["expected_ratio"], rel=1e-12, abs=0)
