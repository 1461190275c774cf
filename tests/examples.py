"""How many examples a test draws."""

import math
import os

#: Whether each test draws all of its examples, as the exhaustive tier does.
ALL = os.environ.get("NETSIM_TESTS") == "all"


def examples(full: int, fewest: int = 5) -> int:
    """Return `full` in the exhaustive tier, where NETSIM_TESTS=all is set, else an eighth of it.

    Decorators and loops ask for their numbers when a module is imported, before pytest has chosen
    what it runs; hence a variable, which `make test-all` sets. Without it there are `fewest` at
    least: fewer than five are for a test that every policy runs.
    """
    return full if ALL else min(full, max(fewest, math.ceil(full / 8)))
