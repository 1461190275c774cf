"""Names of the tables that can be recorded."""

from __future__ import annotations

#: Names of the tables that can be recorded; jobs always are.
RECORDS = ("coflows", "computations", "decisions", "flows", "jobs", "links")

#: Tables on links, which do not exist if rates are constant.
OF_LINKS = ("links", "decisions")
