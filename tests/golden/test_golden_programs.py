"""Programs of MSCCL: facts of real files, and small files with theirs."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from netsim import big_switch, collective_times
from netsim.collectives import read_msccl
from netsim.errors import TraceError

DATA = Path(os.environ.get("NETSIM_TRACES", Path(__file__).parents[3] / "shared" / "data"))
SIZE = 2**20

#: Words that the errors must have, as the cases say them in other words.
SAID = {"deadlock.xml": "gpu 0 tb 0 step 0: deadlock: waits for .*gpu 1 tb 0 step 0",
        "wrong.xml": "wrong result: gpu 0 chunk 1", "type.xml": "gpu 0 tb 0 step 0: .*'zz'",
        "order.xml": "steps out of order", "unreceived.xml": "a send that nobody receives"}


def check(path, expected):
    program = read_msccl(path)
    listing = program.listing
    assert Counter(step.type for step in listing.steps) == expected["steps_by_type"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)  # not meant for this size
        sizes = program.sizes(SIZE)
    assert sizes.nbytes / sizes.divisor == expected["chunk_bytes"]
    messages = program.messages(sizes)
    assert len(messages.src) == program.messages_sent == expected["messages"]
    pairs = Counter()
    for src, dst, nbytes in zip(messages.src, messages.dst, messages.nbytes, strict=True):
        pairs[f"{src}->{dst}"] += int(nbytes)
    assert pairs == expected["bytes_per_pair"]
    for name in ("name", "protocol", "gpus", "chunks", "min_bytes", "max_bytes"):
        key = {"protocol": "proto", "gpus": "ngpus", "chunks": "nchunksperloop",
               "min_bytes": "minBytes", "max_bytes": "maxBytes"}.get(name, name)
        assert getattr(listing, name) == expected.get(key, getattr(listing, name))
    if "thread_blocks" in expected:
        assert len(listing.blocks) == expected["thread_blocks"]
        assert len(listing.steps) == expected["steps"]
        assert sum(step.after is not None for step in listing.steps) == expected[
            "steps_with_depid"]
        assert sum(pairs.values()) == expected["bytes_total"]
    return program


def test_real_programs(traces_msccl_case):
    facts = json.loads(traces_msccl_case.read_text())
    found = [(DATA / name, expected) for name, expected in facts.items()
             if (DATA / name).exists()]
    if not found:
        pytest.skip("the real files are not there")
    for path, expected in found:
        check(path, expected)


@pytest.mark.filterwarnings("ignore::netsim.errors.NetsimWarning")
@pytest.mark.parametrize("form", ["steps", "messages", "aggregate"])
def test_real_programs_take_no_longer_than_their_ports_need(traces_msccl_case, form):
    """All three are even: S sent_per_gpu / B, as each GPU sends and receives as much."""
    for name, expected in json.loads(traces_msccl_case.read_text()).items():
        if not (DATA / name).exists():
            pytest.skip("the real files are not there")
        program = read_msccl(DATA / name)
        table = collective_times(program.collective, big_switch(8, "80Gbps"), 8, SIZE,
                                 algorithm=str(DATA / name), form=form)
        assert table["time_s"].iloc[0] == pytest.approx(
            expected["sent_per_gpu_min_max"][1] / 1e10, rel=1e-9)


def test_small_programs(traces_cases_case, tmp_path):
    cases = json.loads(traces_cases_case.read_text())
    for case in cases["good"]:
        if case["name"].endswith(".xml") and "<algo" in case["text"]:
            (tmp_path / case["name"]).write_text(case["text"])
            check(tmp_path / case["name"], case["expect"])
    wrong = [case for case in cases["bad"] if case["name"] in SAID]
    assert len(wrong) == len(SAID)
    for case in wrong:
        path = tmp_path / case["name"]
        path.write_text(case["text"])
        with pytest.raises(TraceError, match=SAID[path.name]) as caught:
            read_msccl(path)
        assert str(path) in str(caught.value)
