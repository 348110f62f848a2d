"""Reduce the published descriptions of the interfaces of code hosts to what the tests use of them.

    python -m tests.host_schemas

writes `host_schemas.json`: for each request that is sent to a host, the fields of its answer that
the servers of the tests give, with their types, and which of them the host always gives. They are
read from packages that carry the descriptions, or types that were generated from them; nothing else
of these is kept. No package has a description of GitLab, and Gitea is tested as a real server.
"""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests import programs

WRITTEN = Path(__file__).with_suffix(".json")

_REPOSITORY = (
    *("id", "full_name", "private", "visibility", "fork", "archived", "size", "topics"),
    *("pushed_at", "default_branch", "clone_url"),
)
#: The fields of each answer of GitHub; in a list, those of its rows.
GITHUB: Mapping[str, Sequence[str]] = {
    "GET /orgs/{org}/repos": _REPOSITORY,
    "GET /orgs/{org}": ("login", "default_repository_permission"),
    "GET /orgs/{org}/teams": ("slug",),
    "GET /orgs/{org}/teams/{team_slug}/members": ("id",),
    "GET /orgs/{org}/teams/{team_slug}/repos": ("id",),
    "GET /repos/{owner}/{repo}/collaborators": ("id",),
    "GET /orgs/{org}/installation": ("id", "app_id", "account"),
    "POST /app/installations/{installation_id}/access_tokens": (
        *("token", "expires_at", "repository_selection"),
    ),
}
_OF_SERVER = ("RestRepository",), ("id", "slug", "project", "public", "archived", "origin")
#: The declarations that hold the fields of each answer of the others, and these fields.
DECLARED: Mapping[str, tuple[str, str, Mapping[str, tuple[Sequence[str], Sequence[str]]]]] = {
    "bitbucket": (
        "@coderabbitai/bitbucket@1.1.4",
        "dist/cloud/openapi/openapi-typescript.d.ts",
        {
            "page": (("paginated_repositories",), ("pagelen", "values", "next")),
            "GET /2.0/repositories/{workspace}": (
                ("repository",),
                ("uuid", "full_name", "is_private", "parent", "size", "mainbranch", "updated_on"),
            ),
        },
    ),
    "bitbucket-server": (
        "@coderabbitai/bitbucket@1.1.4",
        "dist/server/openapi/openapi-typescript.d.ts",
        {
            "page": (
                ("getRepositories_1",),
                ("start", "limit", "values", "isLastPage", "nextPageStart"),
            ),
            "GET /rest/api/latest/projects/{projectKey}/repos": _OF_SERVER,
            "GET /rest/api/latest/repos": _OF_SERVER,
            "project": (("RestProject",), ("key", "id", "public")),
        },
    ),
    "azure": (
        "azure-devops-node-api@17.0.1",
        "interfaces/GitInterfaces.d.ts",
        {
            "GET /{organization}/_apis/git/repositories": (
                ("GitRepository",),
                ("id", "name", "project", "size", "isDisabled", "isFork", "defaultBranch"),
            ),
        },
    ),
}
OPENAPI = "@octokit/openapi@23.0.2"
_OPENAPI_FILE = "generated/api.github.com.json"

_SIMPLE = {"string": "string", "number": "number", "boolean": "boolean", "Date": "string"}


def main() -> None:
    document = json.loads(_packed(OPENAPI, _OPENAPI_FILE))
    found = {"github": {name: _answer(document, name, of) for name, of in GITHUB.items()}}
    for kind, (package, file, answers) in DECLARED.items():
        text = _packed(package, file)
        found[kind] = {name: _declared(text, *of) for name, of in answers.items()}
    WRITTEN.write_text(f"{{\n{_lines(found)}\n}}\n")


def _lines(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return JSON with a line for each answer."""
    kinds = []
    for kind, answers in found.items():
        lines = ",\n".join(
            f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in answers.items()
        )
        kinds.append(f" {json.dumps(kind)}: {{\n{lines}\n }}")
    return ",\n".join(kinds)


def _packed(package: str, file: str) -> str:
    """Return a file of a package, which is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        programs.npm(Path(folder), "pack", "--pack-destination", folder, package)
        (packed,) = Path(folder).glob("*.tgz")
        with tarfile.open(packed) as archive:
            member = archive.extractfile(f"package/{file}")
            assert member is not None, f"{package} has no {file}"
            return member.read().decode()


def _answer(document: Any, name: str, fields: Sequence[str]) -> dict[str, Any]:
    """Return the schema of an answer, as an OpenAPI document describes it."""
    method, path = name.split(" ")
    answers = document["paths"][path][method.lower()]["responses"]
    answer = answers.get("200") or answers["201"]
    schema = _followed(document, answer["content"]["application/json"]["schema"])
    rows = _followed(document, schema["items"]) if schema.get("type") == "array" else schema
    properties = {one: _followed(document, rows["properties"][one]) for one in fields}
    types = {one: _types(of) for one, of in properties.items()}
    return _object(types, [one for one in fields if one in rows.get("required", ())])


def _followed(document: Any, schema: Any) -> Any:
    while "$ref" in schema:
        found = document
        for part in schema["$ref"].split("/")[1:]:
            found = found[part]
        schema = found
    return schema


def _types(schema: Mapping[str, Any]) -> dict[str, Any]:
    kind = schema.get("type", "object")
    return {"type": [kind, "null"] if schema.get("nullable") else kind}


def _declared(text: str, names: Sequence[str], fields: Sequence[str]) -> dict[str, Any]:
    """Return the schema of an answer, as declarations of TypeScript describe it."""
    blocks = "\n".join(_block(text, name) for name in names)
    lines = {one: re.search(rf"^ +(?:readonly )?{one}(\??): (.*?)[;{{]?$", blocks, re.M)
             for one in fields}  # fmt: skip
    missing = [one for one, line in lines.items() if line is None]
    assert not missing, f"{names} lack {missing}"
    given = {one: (line[1], line[2]) for one, line in lines.items() if line}
    types = {one: _of_typescript(of, may_miss=bool(mark)) for one, (mark, of) in given.items()}
    return _object(types, [one for one, (mark, _) in given.items() if not mark])


def _block(text: str, name: str) -> str:
    """Return the lines of a declaration, up to the brace that closes it."""
    found = re.search(rf"^( *)(?:export )?(?:interface |readonly )?{name}\b[^\n]*\{{$", text, re.M)
    assert found, f"{name} is not declared"
    end = re.compile(rf"^{found[1]}\}}[);]*$", re.M).search(text, found.end())
    assert end, f"{name} does not end"
    return text[found.end() : end.start()]


def _of_typescript(written: str, *, may_miss: bool) -> dict[str, Any]:
    """Return the type; a field that may be missing may also be null, which is never declared."""
    parts = [one.strip() for one in written.split("|")]
    kinds = {_kind(one) for one in parts if one != "null"}
    may_be_null = {"null"} if may_miss or "null" in parts else set[str]()
    found = sorted(kinds | may_be_null)
    return {"type": found[0] if len(found) == 1 else found}


def _kind(written: str) -> str:
    if written.endswith("[]"):
        return "array"
    return "string" if written.startswith(("'", '"')) else _SIMPLE.get(written, "object")


def _object(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


if __name__ == "__main__":
    main()
