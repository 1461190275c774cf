"""The folder of compiled kernels, whose name depends on the code of all of them."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import Any

from netsim.reading import read_bytes


def cache_folder() -> Path:
    """Return the cache folder of this version of netsim."""
    import numba

    configured: Any = numba.config
    return Path(folder_below(configured.CACHE_DIR))


@cache
def folder_below(base: str) -> str:
    """Return the cache folder below `base`, or below a default one if `base` is empty."""
    here = Path(__file__).parent
    digest = hashlib.sha256()
    rooms = (here / room for room in ("edge", "fabric", "models"))
    alone = ("compiled_kernel.py", "compiling.py", "kernel_cache.py", "signals.py", "ties.py",
             "jobs/longest_path.py", "placements/kernels.py", "schedulers/kernels.py")
    for path in [*(here / name for name in alone),
                 *(path for room in rooms for path in sorted(room.rglob("*.py")))]:
        digest.update(read_bytes(path))
    if not base:
        beside = here / "__pycache__"
        base = str(beside if os.access(beside if beside.exists() else here, os.W_OK)
                   else Path("~/.cache/netsim").expanduser())
    return str(Path(base) / f"netsim-{digest.hexdigest()[:12]}")
