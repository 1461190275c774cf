"""Jobs: communication patterns, and the process that runs a job on the fabric."""
