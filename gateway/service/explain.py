"""Explain a file or a symbol: definitions, imports, importers, and tests."""

from __future__ import annotations

import asyncio

from codelode.access import Principal
from gateway import pipeline
from gateway.service import queries
from gateway.service.audit import note
from gateway.service.catalog import VisibleCatalog
from gateway.service.dependencies import Dependencies, reads_index
from gateway.service.requests import ExplainRequest
from gateway.service.results import ExplainAnswer, explain_answer
from gateway.state import Backends


@reads_index
async def explain(
    dependencies: Dependencies, backends: Backends, principal: Principal, request: ExplainRequest
) -> ExplainAnswer:
    """Describe a file or a symbol: what it is, its definitions, importers and tests."""
    subject = queries.subject(request.subject)
    catalog = VisibleCatalog(dependencies.ledger, principal.visible)
    names = await asyncio.to_thread(catalog.known_or_all, request.repository)
    ref = await asyncio.to_thread(catalog.ref, request.ref, names)
    found = await pipeline.explain(subject, repositories=names, ref=ref, backends=backends)
    note(subject_kind=found.kind, definitions=len(found.definitions))
    return explain_answer(found)
