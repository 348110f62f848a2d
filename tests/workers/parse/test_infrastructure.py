"""Infrastructure blocks have hierarchies and types, by the path and content of their file."""

from textwrap import dedent

import pytest

from codelode.infrastructure import BLOCK_TYPES, Family, family_of
from codelode.model import HealthStatus, Kind
from tests.processor_time import processor_time_below
from workers.parse import parse
from workers.parse.infrastructure import kubernetes, kustomize
from workers.parse.infrastructure.yaml_files import TABLES

FILES = {
    "main.tf": (
        """
        terraform {
          required_version = "1"
        }
        # Where data lies.
        resource "aws_s3_bucket" "data" {
          bucket = "x"
          lifecycle {
            prevent_destroy = true
          }
        }
        data "aws_ami" "base" {}
        locals {
          region = "eu"
        }
        module "network" {
          source = "./network"
        }
        variable "size" {}
        output "id" {}
        """,
        "terraform: terraform; resource: resource.aws_s3_bucket.data; data: data.aws_ami.base;"
        "locals: locals; local: local.region; module: module.network; variable: variable.size;"
        "output: output.id",
    ),
    "docker/Dockerfile": (
        """
        ARG VERSION=1
        FROM golang:${VERSION} AS builder
        RUN make
        FROM alpine
        COPY --from=builder /x /x
        """,
        "stage: stage.builder; stage: stage.1",
    ),
    ".github/workflows/ci.yml": (
        """
        name: CI
        on: [push]
        env: {A: 1}
        jobs:
          build:
            strategy:
              matrix: {os: [a, b]}
            services:
              db: {image: postgres}
            steps:
              - uses: actions/checkout@v4
          "test": {uses: ./.github/workflows/test.yml}
        """,
        "trigger: on; env: env; job: job.build; strategy: job.build.strategy;"
        "service: job.build.service.db; steps: job.build.steps; job: job.test",
    ),
    "actions/setup/action.yml": (
        """
        name: Setup
        inputs:
          version: {required: true}
        outputs:
          path: {value: x}
        runs:
          using: composite
          steps: [{run: make}]
        """,
        "input: input.version; output: output.path; runs: runs; steps: runs.steps",
    ),
    ".gitlab-ci.yml": (
        """
        stages: [test]
        variables: {A: 1}
        .base:
          image: x
        test:
          extends: .base
          script:
            - make
        """,
        "stages: stages; variables: variables; template: template.base; job: job.test;"
        "script: job.test.script",
    ),
    "deploy/docker-compose.prod.yml": (
        """
        x-common: &common {restart: always}
        services:
          web:
            <<: *common
            image: x
          db: {image: y}
        volumes:
          data:
        networks: {inner: {}}
        """,
        "extension: extension.x-common; service: service.web; service: service.db;"
        "volume: volume.data; network: network.inner",
    ),
    "k8s/web.yaml": (
        """
        # The web.
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: web
        spec:
          template:
            spec:
              initContainers:
                - {name: migrate}
              containers:
                - name: app
                  image: x
        ---
        apiVersion: v1
        kind: Service
        metadata: {name: "web"}
        """,
        "Deployment: Deployment/web; container: Deployment/web.container.migrate;"
        "container: Deployment/web.container.app; Service: Service/web",
    ),
    "apps/web.yaml": (
        """
        apiVersion: argoproj.io/v1alpha1
        kind: Application
        metadata:
          name: web
        spec:
          source: {repoURL: x}
          destination: {server: y}
          syncPolicy: {automated: {}}
        """,
        "Application: Application/web; source: Application/web.source;"
        "destination: Application/web.destination; syncPolicy: Application/web.syncPolicy",
    ),
    "apps/set.yaml": (
        """
        apiVersion: argoproj.io/v1alpha1
        kind: ApplicationSet
        metadata: {name: all}
        spec:
          generators: [{git: {}}]
          template:
            spec:
              source: {repoURL: x}
        """,
        "ApplicationSet: ApplicationSet/all; generators: ApplicationSet/all.generators;"
        "template: ApplicationSet/all.template; source: ApplicationSet/all.template.source",
    ),
    "k8s/web.json": (
        """
        {
          "apiVersion": "apps/v1",
          "kind": "Deployment",
          "metadata": {"name": "web"},
          "spec": {"template": {"spec": {"containers": [{"name": "app", "image": "x"}]}}}
        }
        """,
        "Deployment: Deployment/web; container: Deployment/web.container.app",
    ),
    "k8s/all.json": (
        """
        {"apiVersion": "v1", "kind": "List", "items": [
          {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}},
          {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"},
           "spec": {"initContainers": [{"name": "migrate"}]}}
        ]}
        """,
        "List: List; Service: Service/web; Pod: Pod/one; container: Pod/one.container.migrate",
    ),
    "k8s/all.yaml": (
        """
        apiVersion: v1
        kind: List
        items:
          - apiVersion: v1
            kind: Service
            metadata: {name: web}
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}
        """,
        "List: List; Service: Service/web; ConfigMap: ConfigMap/settings",
    ),
    "overlays/prod/kustomization.yaml": (
        """
        apiVersion: kustomize.config.k8s.io/v1beta1
        kind: Kustomization
        namespace: prod
        resources:
        - ../../base
        components: [../../tls]
        patches:
          - path: replicas.yaml
        images:
          - name: nginx
            newTag: "1"
          - newName: registry.acme.org/web
            name: web
        configMapGenerator:
          - name: settings
            files: [a.properties]
        """,
        "namespace: namespace; resources: resources; components: components; patches: patches;"
        "images: images; image: images.image.nginx; image: images.image.web;"
        "configMapGenerator: configMapGenerator;"
        "configMap: configMapGenerator.configMap.settings",
    ),
    "charts/web/Chart.yaml": (
        """
        apiVersion: v2
        name: web
        dependencies:
          - name: redis
            version: 1.x
        """,
        "chart: chart.web; dependency: chart.web.dependency.redis",
    ),
    "charts/web/values.prod.yaml": (
        """
        # How many.
        replicas: 1
        image:
          tag: x
        """,
        "values: values.replicas; values: values.image",
    ),
    "charts/web/templates/web.yaml": (
        """
        {{- if .Values.on }}
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: {{ include "web.fullname" . }}-db
          labels:
            {{- include "web.labels" . | nindent 4 }}
        spec:
          {{ .Values.key }}: "{{ .Values.a }}:{{ .Values.b }}"
        {{- end }}
        """,
        "Deployment: Deployment/web.fullname-db",
    ),
    "charts/web/templates/_helpers.tpl": (
        """
        {{/* The name. */}}
        {{- define "web.fullname" -}}
        {{- if .x }}{{ .x }}{{ else }}{{ .y }}{{ end }}
        {{- end }}
        {{ define "web.labels" }}{{ end }}
        """,
        "template: template.web.fullname; template: template.web.labels",
    ),
}


def parsed(path, text):
    return parse(dedent(text).lstrip("\n").encode(), path=path)


@pytest.mark.parametrize("path", FILES)
def test_the_blocks_of_a_file_are_found(path):
    text, expected = FILES[path]
    found = parsed(path, text)
    names = [symbol.qualified_name for symbol in found.symbols]
    assert names == [row.split(": ")[1] for row in expected.split(";")]
    assert {symbol.kind for symbol in found.symbols} == {Kind.BLOCK}


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("a.tf", 'resource "a" "b" {\n  c = 1\n}\n', ("resource.a.b", "resource")),
        ("Dockerfile", "FROM x AS y\nRUN z\n", ("stage.y", "stage")),
        ("compose.yaml", "services:\n  web:\n    image: x\n", ("service.web", "service")),
        (".github/workflows/a.yaml", "jobs:\n  b:\n    runs-on: x\n", ("job.b", "job")),
        ("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", ("Pod/p", "Pod")),
        ("a.sh", "deploy() {\n  make\n}\n", ("deploy", "function")),
        ("a.yaml", "kind: of\nthing: x\n", ("", "")),
        (
            "a.json",
            '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}',
            ("Pod/p", "Pod"),
        ),
        ("a.json", '{"properties": {"apiVersion": {}, "kind": {}}}', ("", "")),
        ("b/kustomization.yml", "resources:\n  - a.yaml\n", ("resources", "resources")),
        ("a.py", "def f(): ...\n", ("f", "")),
    ],
)
def test_a_chunk_has_the_hierarchy_and_the_type_of_its_block(path, text, expected):
    (piece,) = parse(text.encode(), path=path).pieces
    assert (piece.symbol, piece.block_type) == expected


def test_a_chunk_is_named_after_the_innermost_block_around_all_of_it():
    steps = "      - run: make something that takes a while\n" * 120
    text = f"jobs:\n  build:\n    runs-on: x\n    steps:\n{steps}"
    last = parse(text.encode(), path=".github/workflows/a.yml").pieces[-1]
    assert (last.symbol, last.block_type) == ("job.build.steps", "steps")
    assert last.header == "job.build › job.build.steps"


def test_the_comment_above_a_block_is_its_documentation():
    docs = {s.name: s.doc for s in parsed("main.tf", FILES["main.tf"][0]).symbols}
    assert docs["data"] == "Where data lies."
    helpers = FILES["charts/web/templates/_helpers.tpl"][0]
    assert parsed("c/templates/_h.tpl", helpers).symbols[0].doc == "The name."


def test_a_template_is_read_by_its_grammar_with_the_actions_masked():
    path = "charts/web/templates/web.yaml"
    found = parsed(path, FILES[path][0])
    assert found.health.status is HealthStatus.OK
    assert "".join(piece.content for piece in found.pieces) == dedent(FILES[path][0]).lstrip("\n")
    assert parsed("other/web.yaml", FILES[path][0]).health.status is HealthStatus.PARTIAL


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b"a: {{" * 100_000, id="never closed"),
        pytest.param(b"a: " + b"{{ .x }}" * 100_000, id="one line"),
        pytest.param(b'{{ define "x" }}\n' * 20_000, id="never ended"),
        pytest.param(b"- {{ .x }}\n" * 50_000, id="many lines"),
    ],
)
def test_generated_templates_are_read_in_time(text):
    with processor_time_below(20):
        assert parse(text, path="c/templates/a.yaml").pieces


@pytest.mark.parametrize(
    ("path", "family"),
    [
        (".github/workflows/ci.yml", Family.GITHUB_WORKFLOW),
        ("x/.forgejo/workflows/ci.yaml", Family.GITHUB_WORKFLOW),
        ("action.yml", Family.GITHUB_ACTION),
        ("ci/.gitlab-ci.yml", Family.GITLAB_CI),
        ("templates/lint.gitlab-ci.yml", Family.GITLAB_CI),
        ("compose.yaml", Family.COMPOSE),
        ("docker-compose.override.yml", Family.COMPOSE),
        ("charts/a/Chart.yaml", Family.HELM_CHART),
        ("charts/a/values-prod.yml", Family.HELM_VALUES),
        ("charts/a/templates/x/y.yaml", Family.HELM_TEMPLATE),
        ("overlays/prod/kustomization.yaml", Family.KUSTOMIZATION),
        ("Kustomization", Family.KUSTOMIZATION),
        ("apps/my-kustomization.yaml", None),
        (".github/dependabot.yml", None),
        ("src/action.py", None),
        ("config.yaml", None),
    ],
)
def test_the_path_determines_the_family(path, family):
    assert family_of(path) is family


def test_every_block_type_of_the_tables_is_a_known_filter():
    def types(rules):
        for rule in rules:
            yield from (
                (rule.block_type, *types(rule.inside)) if rule.block_type else types(rule.inside)
            )

    tables = (*TABLES.values(), *kubernetes._PARTS.values())
    found = {name for table in tables for name in types(table)} | {*kustomize._ITEMS.values()}
    written = {one.partition(":")[0] for _, said in FILES.values() for one in said.split(";")}

    assert len(found) > 30
    assert found | {name.strip() for name in written} <= {*BLOCK_TYPES}
