"""What links add to bytes on their way."""

import numpy as np
import pytest

from netsim.errors import InputError
from netsim.network import Packet, Topology, Wire


def test_every_packet_that_is_begun_has_a_header():
    """1 byte, a packet to the full, one byte more, none: 1 + 78, 1460 + 78, 1461 + 156, 0."""
    found = Packet(1460, 78).wire_bytes(np.array([1.0, 1460.0, 1461.0, 0.0]))
    np.testing.assert_array_equal(found, [79, 1538, 1617, 0])


def test_rounding_begins_no_packet():
    """0.1 + 0.2 is above 0.3 in floats: three packets of 0.1, not four."""
    assert Packet(0.1, 1.0).wire_bytes(np.array([0.1 + 0.2]))[0] == pytest.approx(3.3)


def test_a_flow_has_the_most_bytes_that_formats_on_its_path_make():
    """Link 1 has packets of 100 + 50, the others 1000 + 10; 1000 bytes are 1010 or 1500."""
    wire = Wire(3, packet=Packet(1000, 10), link_packets={1: Packet(100, 50)})
    found = wire.bytes_of(np.full(3, 1000.0), np.array([0, 1, 3, 3]), np.array([0, 1, 2]))
    np.testing.assert_array_equal(found, [1010, 1500, 1000])  # the last crosses no link


def test_latency_adds_up_along_paths():
    wire = Wire(3, latency=[1e-6, 2e-6, 4e-6])
    found = wire.latency_of(np.array([0, 2, 2, 3]), np.array([0, 2, 1]))
    np.testing.assert_allclose(found, [5e-6, 0, 2e-6], rtol=1e-15)


def test_usable_capacity_is_the_same_array_where_all_is_usable():
    plain = Topology("net", 1, [1.0, 2.0], ["a", "b"])
    assert plain.usable is plain.capacity
    part = Topology("net", 1, [1.0, 2.0], ["a", "b"], wire=Wire(2, efficiency=[0.5, 1.0]))
    np.testing.assert_array_equal(part.usable, [0.5, 2.0])


@pytest.mark.parametrize(("options", "says"), [
    ({"latency": [0, -1e-6]}, r"b: latency must be finite and not negative, not -1e-06 s"),
    ({"latency": np.inf}, "a: latency"), ({"latency": np.nan}, "a: latency"),
    ({"latency": [1.0]}, "2 links need one number, or one each"),
    ({"efficiency": 0}, r"a: efficiency must be above 0 and at most 1, not 0.0"),
    ({"efficiency": [1, 1.5]}, "b: efficiency"),
    ({"overhead": -1.0}, "overhead"), ({"overhead": np.inf}, "overhead"),
])
def test_what_cannot_be_is_refused(options, says):
    with pytest.raises(InputError, match=says):
        Wire(2, link_names=("a", "b"), **options)


@pytest.mark.parametrize(("payload", "header"),
                         [(0, 1), (-1, 1), (np.inf, 1), (1, -1), (1, np.nan)])
def test_formats_that_cannot_be_are_refused(payload, header):
    with pytest.raises(InputError, match="packet: "):
        Packet(payload, header)


def test_a_phase_of_steps_has_the_overheads_and_latencies_of_all():
    """o_A = 3 * 10 + (5 + 5 + 7) - 7: the coflow's own latency is that of its longest path."""
    steps = ((np.array([0, 1]), 2), (np.array([2]), 1))
    ptr, latency = np.array([0, 1, 2, 3]), np.array([5.0, 3.0, 7.0])
    assert Wire(3).overhead_of(ptr, latency, steps, 10.0) == 40.0
    assert Wire(3, overhead=10.0).overhead_of(ptr, latency, steps) == 40.0
    assert Wire(3, overhead=10.0).overhead_of(np.zeros(4, np.int64), np.zeros(3), steps) == 0.0
