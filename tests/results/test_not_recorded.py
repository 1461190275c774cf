"""Tables that a run did not record, or could not: errors that say how to have them."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

import netsim
from netsim import JobSpec, NotRecordedError, Stage
from netsim.errors import InputError

RING = [JobSpec(0, pattern="ring-all-reduce", ranks=2, nbytes="1MB", compute_s=0.1)]
CLUSTER = netsim.Cluster(2, 1, nic="10Gbps")


@pytest.mark.parametrize(("record", "table", "suggested"), [
    ([], "coflows", "['jobs', 'coflows']"), ([], "links", "['jobs', 'coflows', 'links']"),
    (["coflows"], "flows", "['jobs', 'coflows', 'flows']"),
    (["links"], "decisions", "['jobs', 'coflows', 'decisions']")])
def test_what_was_not_recorded_says_how(record, table, suggested) -> None:
    """In Python by a keyword, on the command line by --set."""
    result = netsim.simulate("parrot-fig2", "parrot-fig2", record=record)
    message = f"{table} were not recorded; simulate with record={suggested}"
    with pytest.raises(NotRecordedError, match=re.escape(message)) as error:
        getattr(result, table)
    listed = suggested.replace("'", '"')
    assert error.value.command_line == (
        f"{table} were not recorded; run it again with --set 'record={listed}'")
    assert isinstance(error.value, InputError)
    again = pickle.loads(pickle.dumps(error.value))
    assert (str(again), again.command_line) == (message, error.value.command_line)


def test_what_was_recorded_is_known_without_asking() -> None:
    """As for any attribute that is not there; and copies do not ask for it."""
    result = netsim.simulate("parrot-fig2", "parrot-fig2", record=["links"])
    assert result.recorded == ("jobs", "links")
    assert hasattr(result, "links")
    assert not hasattr(result, "flows")
    for other in (copy.copy(result), pickle.loads(pickle.dumps(result))):
        assert other.recorded == ("jobs", "links")


@pytest.mark.parametrize("execution", ["rar-contention", "asrpt"])
def test_a_cluster_without_a_network_has_no_coflows_to_record(execution) -> None:
    result = netsim.simulate(CLUSTER, RING, scheduler="fifo", execution=execution,
                             record=["jobs", "coflows"])
    assert result.recorded == ("jobs", "gpus")
    message = (f"there are no coflows: jobs ran by the model {execution!r}, and sent nothing over "
               "a network; `gpus` says which job had which GPU; simulate with execution='fabric'")
    with pytest.raises(NotRecordedError, match=re.escape(message)) as error:
        result.coflows  # noqa: B018
    assert error.value.command_line.endswith("; run it again with --set execution=fabric")
    with pytest.raises(NotRecordedError, match=r"execution='fabric', record=.*'links'") as error:
        result.links  # noqa: B018
    assert error.value.command_line.endswith(
        """--set execution=fabric --set 'record=["jobs", "coflows", "links"]'""")


def test_a_cluster_s_coflows_on_the_fabric() -> None:
    result = netsim.simulate(CLUSTER, RING, scheduler="fifo", execution="fabric")
    assert len(result.coflows) > 0
    with pytest.raises(NotRecordedError, match=r"^flows were not recorded; simulate with record="):
        result.flows  # noqa: B018


def test_an_edge_cloud_has_no_coflows() -> None:
    system = netsim.read_edge_cloud("edge-servers-100", servers=2, types=1)
    result = netsim.simulate(system, netsim.read_edge_jobs("edge-jobs-300", system, jobs=3))
    with pytest.raises(NotRecordedError, match=r"^there are no coflows of a run on an "):
        result.coflows  # noqa: B018
    with pytest.raises(NotRecordedError, match=r"transport='fabric', record=\['jobs', ") as e:
        result.links  # noqa: B018
    assert e.value.command_line.endswith(
        """--set transport=fabric --set 'record=["jobs", "links"]'""")


def test_nothing_is_asked_for_that_a_summary_or_table_can_do_without() -> None:
    compared = netsim.compare(CLUSTER, RING, schedulers=["fifo", "sjf"])
    assert compared.table["cct_mean_s"].isna().all()
    assert compared.against("fifo")["class"].unique().tolist() == ["all"]
    plain = netsim.simulate("parrot-fig2", "parrot-fig2", record=[])
    assert "cct_mean_s" not in plain.summary()
    with pytest.raises(NotRecordedError):
        netsim.classify_coflows(plain)


def test_quantities_of_flows_may_be_strings() -> None:
    """1 GB over a port of 1 MB/s take 1,000 s; in a list or in arrays of any of them."""
    stage = Stage("f", [(0, 1, "1GB"), netsim.Flow(1, 0, "8kbit"), (0, 1, 5)])
    assert stage.flows.nbytes.tolist() == [1e9, 1e3, 5.0]
    job = JobSpec(0, stages=[Stage("f", [(0, 1, "1GB")])])
    assert netsim.simulate(netsim.big_switch(2, "1MB/s"), [job]).jobs["jct_s"][0] == 1000
    assert netsim.Flows([0, 1], [1, 0], ["1GB", 7]).nbytes.tolist() == [1e9, 7]
    with pytest.raises(InputError, match="size of flow 1 '1XB' has the unknown unit 'XB'"):
        Stage("f", [(0, 1, 1), (0, 1, "1XB")])
    with pytest.raises(InputError, match="src must be a list of numbers"):
        Stage("f", [("0", 1, "1GB")])


def test_tables_of_other_kinds_of_runs_say_whose_they_are(tmp_path) -> None:
    """Not None, of which nobody knows whether it was forgotten or cannot be."""
    on_network = netsim.simulate("parrot-fig2", "parrot-fig2")
    on_cluster = netsim.simulate(CLUSTER, RING, scheduler="fifo")
    system = netsim.read_edge_cloud("edge-servers-100", servers=2, types=1)
    jobs = netsim.read_edge_jobs("edge-jobs-300", system, jobs=3)
    on_edge = netsim.simulate(system, jobs)
    for result in (on_network, on_edge):
        with pytest.raises(NotRecordedError, match=r"no gpus; only runs on a netsim\.Cluster have"):
            result.gpus  # noqa: B018
    for result in (on_network, on_cluster):
        for name in ("chunks", "training", "workers", "servers", "ps"):
            with pytest.raises(NotRecordedError, match=rf"no {name}; .* on a netsim\.EdgeCloud"):
                getattr(result, name)
    assert {"chunks", "training", "workers", "servers", "ps"} <= {*on_edge.recorded}
    whole = netsim.simulate(system, jobs, scheduler="srtf")
    with pytest.raises(NotRecordedError, match="or the scheduler is one for whole jobs; simulate"):
        whole.chunks  # noqa: B018


def test_a_result_with_other_tables() -> None:
    """`dataclasses.replace` would look at those that were not recorded."""
    result = netsim.simulate("parrot-fig2", "parrot-fig2", record=["coflows"])
    first = result.replace(coflows=result.coflows.iloc[:1])
    assert (len(first.coflows), first.recorded) == (1, ("jobs", "coflows"))
    assert result.replace(coflows=None).recorded == ("jobs",)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        result.replace(nothing=1)
