"""Check whether ledger, chunk index, tables, and mirrors agree; report and repair differences.

Input: the stores. Output: a `Report`; repairs are made along the way if requested. The ledger is
the source of truth. What it does not know is removed. What it has as indexed but the index lacks is
invalidated: the record becomes pending, and a new run indexes the file again. Raises Unavailable
when a store does not answer.

The doctor works on the stores directly, with the settings of the workers, and not through the
gateway: it is needed when the gateway does not answer, and no process of the cluster has all of the
stores open. The cluster may run meanwhile. Repositories with a run under way are skipped and named,
because the run may be about to change them. Every suspicion is checked again, and acted on, while
no worker writes and no index swap can happen (`codelode.backends.redis.index_swap`), a few hundred
files at a time so that no worker waits long. If a run begins in between, the ledger notices and
refuses to invalidate anything.
"""

from codelode.operations.doctor.examination import Doctor
from codelode.operations.doctor.findings import Finding, Report, Trouble

__all__ = ["Doctor", "Finding", "Report", "Trouble"]
