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

#: What blocks are usually: others occur, for HCL and Kubernetes let authors name their own.
BLOCK_TYPES = tuple(dict.fromkeys(_BLOCK_TYPES.split()))


def family_of(path: str) -> Family | None:
    """The family that the path alone tells, or None."""
    lower = path.lower()
    if not lower.endswith(_ENDS):
        return None
    return next((family for family, pattern in _BY_PATH if pattern.fullmatch(lower)), None)
