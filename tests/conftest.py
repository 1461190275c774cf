"""What all tests share."""

import os

from hypothesis import settings

# How long an example takes says nothing: the first one may compile a kernel. In CI always the same
# examples: who changes one thing is not told of another.
settings.register_profile("netsim", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("netsim")
