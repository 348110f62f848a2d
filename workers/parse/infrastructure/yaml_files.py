"""Find blocks of YAML files by family: workflows, pipelines, Compose, charts, kustomizations.

A family whose blocks are pairs of mappings has a table of rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tree_sitter import Node

from codelode.infrastructure import Family
from workers.parse.infrastructure import helm, kubernetes, kustomize, mappings
from workers.parse.infrastructure.blocks import Block, Rule, find, under

#: Top-level keys of a GitLab pipeline that are not jobs.
_GITLAB_KEYWORDS = (
    "default include stages variables workflow image services cache before_script after_script spec"
)

TABLES: dict[Family, Sequence[Rule]] = {
    Family.GITHUB_WORKFLOW: (
        Rule("on", "trigger"),
        Rule("env", "env"),
        under(
            "jobs",
            "job",
            (Rule("strategy", "strategy"), Rule("steps", "steps"), under("services", "service")),
        ),
    ),
    Family.GITHUB_ACTION: (
        under("inputs", "input"),
        under("outputs", "output"),
        Rule("runs", "runs", (Rule("steps", "steps"),)),
    ),
    Family.GITLAB_CI: (
        *(Rule(word, word) for word in _GITLAB_KEYWORDS.split()),
        Rule(".*", "template", of_mappings=True),
        Rule("*", "job", (Rule("script", "script"), Rule("rules", "rules")), of_mappings=True),
    ),
    Family.COMPOSE: (
        under("services", "service"),
        under("volumes", "volume"),
        under("networks", "network"),
        under("secrets", "secret"),
        under("configs", "config"),
        Rule("x-*", "extension"),
    ),
    Family.HELM_VALUES: (Rule("*", "values"),),
}


def blocks(family: Family | None, root: Node, data: bytes) -> Iterator[Block] | None:
    """Yield the blocks of a family, or the objects of Kubernetes; None if there are neither."""
    if family is Family.HELM_CHART:
        return helm.chart(root, data)
    if family is Family.KUSTOMIZATION:
        return kustomize.blocks(root, data)
    if family is not None and family in TABLES:
        return _by_table(root, data, TABLES[family])
    return kubernetes.objects(root, data) if kubernetes.holds_objects(data) else None


def _by_table(root: Node, data: bytes, rules: Sequence[Rule]) -> Iterator[Block]:
    for document in mappings.documents(root):
        yield from find(document, data, rules)
