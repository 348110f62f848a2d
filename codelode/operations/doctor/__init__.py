"""Check whether ledger, chunk index, tables, and mirrors agree; report and repair differences.

Input: the stores. Output: a `Report`; differences are repaired if requested. The ledger is the
source of truth. A repair removes data that the ledger does not know. A file that is indexed
according to the ledger but missing in the index is invalidated: its record becomes pending, and a
new run indexes it again. Raises Unavailable if a store does not answer.

The doctor works on the stores directly, with the settings of the workers, and not through the
gateway: it is needed when the gateway does not answer, and no process of the cluster has all of the
stores open. The cluster may run meanwhile. Repositories with a run under way are skipped and named,
because the run may be about to change them. Every suspected difference is checked again, and
repaired, while no worker writes and no index swap can happen
(`codelode.backends.redis.index_swap`), a few hundred files at a time so that no worker waits long.
If a run begins in between, the ledger notices and refuses to invalidate anything.
"""

from codelode.operations.doctor.examination import Doctor
from codelode.operations.doctor.findings import Finding, Report, Trouble

__all__ = ["Doctor", "Finding", "Report", "Trouble"]
