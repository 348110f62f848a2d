"""Recognise families of infrastructure files by their paths.

A family separates files of one format: a GitHub workflow and a Compose file are both YAML. Files of
Kubernetes and Argo CD have no typical names and are recognised by their content.
"""

from __future__ import annotations

import re
from enum import StrEnum


class Family(StrEnum):
    """A kind of infrastructure file."""

    GITHUB_WORKFLOW = "github_workflow"
    GITHUB_ACTION = "github_action"
    GITLAB_CI = "gitlab_ci"
    COMPOSE = "compose"
    HELM_CHART = "helm_chart"
    HELM_VALUES = "helm_values"
    HELM_TEMPLATE = "helm_template"
    KUSTOMIZATION = "kustomization"


#: The first match counts. Patterns may be broad, because a file without blocks yields none. A
#: repetition before another one is atomic, so that the time is linear in the length of the path.
_PATHS = (
    (Family.GITHUB_WORKFLOW, r"(?:.*/)?\.(?:github|gitea|forgejo)/workflows/[^/]+\.ya?ml"),
    (Family.GITHUB_ACTION, r"(?:.*/)?action\.ya?ml"),
    (
        Family.GITLAB_CI,
        r"(?:.*/)?(?>(?:[^/]*?\.)??gitlab-ci)[^/]*\.ya?ml|(?>(?:.*?/)??\.gitlab/).*\.ya?ml",
    ),
    (Family.COMPOSE, r"(?:.*/)?(?:docker-)?compose[^/]*\.ya?ml|(?:.*/)?[^/]*\.compose\.ya?ml"),
    (Family.HELM_CHART, r"(?:.*/)?chart\.ya?ml"),
    (Family.KUSTOMIZATION, r"(?:.*/)?kustomization(?:\.ya?ml)?"),
    (Family.HELM_TEMPLATE, r"(?>(?:.*?/)??templates/).+\.(?:ya?ml|tpl)|.*\.gotmpl"),
    (Family.HELM_VALUES, r"(?:.*/)?(?>(?:[^/]*?[-_.])??values)[^/]*\.ya?ml"),
)
_BY_PATH = tuple((family, re.compile(pattern, re.DOTALL)) for family, pattern in _PATHS)

#: The endings of all these paths: a cheap test that excludes nearly every other file.
_ENDS = (".yml", ".yaml", ".tpl", ".gotmpl", "kustomization")


_BLOCK_TYPES = """
stage function values chart dependency container
service volume network secret config extension
trigger env job strategy steps input output runs
default include stages variables workflow image services cache before_script after_script spec
template script rules
source sources destination syncPolicy generators
resources components bases patches patchesStrategicMerge patchesJson6902 namespace namePrefix
nameSuffix commonLabels commonAnnotations labels images replicas configMapGenerator
secretGenerator generatorOptions helmCharts vars replica configMap replacements transformers
terraform resource data locals local module variable provider moved import check removed ephemeral
List Deployment StatefulSet DaemonSet ReplicaSet Pod Job CronJob Service Ingress ConfigMap Secret
Namespace ServiceAccount Role RoleBinding ClusterRole ClusterRoleBinding PersistentVolume
PersistentVolumeClaim StorageClass NetworkPolicy HorizontalPodAutoscaler PodDisruptionBudget
CustomResourceDefinition Application ApplicationSet AppProject Kustomization HelmRelease
"""

#: Common types of blocks. Others occur, because authors of HCL and Kubernetes define their own.
BLOCK_TYPES = tuple(dict.fromkeys(_BLOCK_TYPES.split()))


def family_of(path: str) -> Family | None:
    """Return the family of a path, or None."""
    lower = path.lower()
    if not lower.endswith(_ENDS):
        return None
    return next((family for family, pattern in _BY_PATH if pattern.fullmatch(lower)), None)
