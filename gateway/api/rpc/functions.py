"""Name the service function that each method of the gRPC services calls."""

from __future__ import annotations

from collections.abc import Mapping

FUNCTIONS: Mapping[str, str] = {
    "Search": "search",
    "Context": "context",
    "Similar": "similar",
    "Explain": "explain",
    "GetGraph": "graph",
    "StartRun": "start",
    "WatchRun": "watch",
    "CancelRun": "cancel",
    "ListRepositories": "repositories",
    "GetStatus": "status",
    "RemoveRepository": "remove",
    "SetDefaultRef": "set_default",
    "ListFailures": "failures",
    "RetryFailures": "retry_failures",
    "EnrichRepository": "enrich",
    "SetLabel": "label",
    "CreateKey": "create_key",
    "ListKeys": "list_keys",
    "RevokeKey": "revoke_key",
    "ListPermissions": "permissions",
    "SyncPermissions": "sync_permissions",
}
