"""What a policy's compiled rule sees, and what is done to its shares."""

from __future__ import annotations

from netsim.fabric.kernels import row_type

#: What a rule sees of each active coflow, and of each job; the names are those of `FabricView`.
COFLOWS = row_type([("job", "i8"), ("id", "i8"), ("order", "i8"), ("width", "i8"),
                    ("flow_count", "i8"), ("valid_s", "f8"), ("weight", "f8"),
                    ("deadline_s", "f8"), ("sent", "f8"), ("total", "f8"), ("remaining", "f8"),
                    ("gamma", "f8"), ("nominal_gamma", "f8"), ("longest", "f8")])


JOBS = row_type([("active", "i8"), ("completed", "i8"), ("arrival_s", "f8"), ("attained", "f8"),
                 ("active_gamma", "f8"), ("longest_gamma", "f8"), ("predicted_s", "f8"),
                 ("ahead_s", "f8")])


#: What is done to the shares that a rule gives: nothing; all grow by the largest common factor
#: that fits; those without one get the largest common share that fits.
UNSTRETCHED, ALL, OTHERS = range(3)
