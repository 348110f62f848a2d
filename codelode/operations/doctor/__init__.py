"""Whether ledger, chunk index, tables and mirrors agree; what does not is reported and repaired.

In: the stores. Out: a `Report`; repairs are made on the way when they are asked for. The ledger is
the truth. What it does not know is removed; what it has as indexed and the index lacks is doubted:
its record becomes pending, and a new run indexes it again. Raises Unavailable when a store is away.

It works beside the stores, with the settings of the workers, rather than behind the gateway: it is
wanted on the days on which that does not answer, and it reads and writes stores that no process of
the cluster has all of. The cluster may run meanwhile. Nothing is taken for wrong that a run is
about to change: repositories with a run under way are left out and named, and every suspicion is
looked at again, and acted on, while no worker writes and no new index takes its place
(`codelode.backends.redis.index_swap`), a few hundred files at a time so that nobody waits for long.
A run that begins in between is noticed by the ledger, which then refuses to doubt anything.
"""

from codelode.operations.doctor.examination import Doctor
from codelode.operations.doctor.findings import Finding, Report, Trouble

__all__ = ["Doctor", "Finding", "Report", "Trouble"]
