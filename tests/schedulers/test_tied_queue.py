"""A queue in which keys that are equal but for rounding tie, against sorting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim.schedulers.waiting_jobs import TiedQueue
from netsim.ties import rank

near = st.builds(lambda value, off: value * (1 + off * 4e-10), st.sampled_from([0.0, 1.0, 3.0]),
                 st.integers(-3, 3))


@given(st.lists(near, max_size=12))
def test_the_first_is_the_first_of_the_ranked(keys):
    """Whatever has been removed, it is the first in the rank of what is left."""
    queue = TiedQueue()
    for entry, key in enumerate(keys):
        queue.push(key, entry)
    left = list(range(len(keys)))
    while left:
        place = rank([keys[entry] for entry in left])[0]
        assert queue
        assert queue.first == queue.pop() == (keys[left[place]], left[place])
        del left[place]
    assert not queue
    with pytest.raises(IndexError):
        queue.pop()
