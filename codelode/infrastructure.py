"""Which kind of infrastructure file a path names: the families that share one file format.

A family is what tells a workflow of GitHub Actions from a Compose file: both are YAML. Kubernetes
and Argo CD have no names of their own; their files are known by what is in them.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Family(StrEnum):
    GITHUB_WORKFLOW = "github_workflow"
    GITHUB_ACTION = "github_action"
    GITLAB_CI = "gitlab_ci"
    COMPOSE = "compose"
    HELM_CHART = "helm_chart"
    HELM_VALUES = "helm_values"
    HELM_TEMPLATE = "helm_template"
    KUSTOMIZATION = "kustomization"
    KUBERNETES = "kubernetes"  # by content only


#: The first that matches counts. What a file of the name does not hold is not found in it, so a
#: glob may be wide.
_PATHS = (
    (Family.GITHUB_WORKFLOW, r"(?:.*/)?\.(?:github|gitea|forgejo)/workflows/[^/]+\.ya?ml"),
    (Family.GITHUB_ACTION, r"(?:.*/)?action\.ya?ml"),
    (Family.GITLAB_CI, r"(?:.*/)?(?:[^/]*\.)?gitlab-ci[^/]*\.ya?ml|(?:.*/)?\.gitlab/.*\.ya?ml"),
    (Family.COMPOSE, r"(?:.*/)?(?:docker-)?compose[^/]*\.ya?ml|(?:.*/)?[^/]*\.compose\.ya?ml"),
    (Family.HELM_CHART, r"(?:.*/)?chart\.ya?ml"),
    (Family.KUSTOMIZATION, r"(?:.*/)?kustomization(?:\.ya?ml)?"),
    (Family.HELM_TEMPLATE, r"(?:.*/)?templates/.+\.(?:ya?ml|tpl)|.*\.gotmpl"),
    (Family.HELM_VALUES, r"(?:.*/)?(?:[^/]*[-_.])?values[^/]*\.ya?ml"),
)
_BY_PATH = tuple((family, re.compile(pattern, re.DOTALL)) for family, pattern in _PATHS)

#: Ends of all of these paths, to answer for nearly every file without a pattern.
_ENDS = (".yml", ".yaml", ".tpl", ".gotmpl", "kustomization")


def family_of(path: str) -> Family | None:
    """The family that the path alone tells, or None."""
    lower = path.lower()
    if not lower.endswith(_ENDS):
        return None
    return next((family for family, pattern in _BY_PATH if pattern.fullmatch(lower)), None)
