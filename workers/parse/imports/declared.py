"""What configuration and prose refer to, from their text: no grammar is needed for a line or two.

Only the content and the family decide what is read, not the path, so that equal files give equal
imports. What a reference is stands in `names`: `uses`, `image`, `build`, `chart`, `file`, `base`,
or `package` for a dependency that a manifest declares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from codelode.infrastructure import Family
from codelode.model import Import
from workers.parse.imports import kustomize, manifests

#: References of one file; more are generated.
MAX_DECLARED = 2_000
#: A longer text is data.
MAX_CHARS = 400_000

_Found = Iterator[tuple[int, str, str]]  # offset, module, kind


def read(text: str, language: str, family: Family | None = None) -> tuple[Import, ...]:
    """The references in file order; none for a language that is read by its grammar."""
    reader = _READERS.get(language)
    if family is Family.KUSTOMIZATION and language == "yaml":
        reader = kustomize.read
    if reader is None or len(text) > MAX_CHARS:
        return ()
    found: dict[Import, None] = {}
    line, last = 1, 0
    for offset, module, kind in sorted(reader(text)):
        line, last = line + text.count("\n", last, offset), offset
        found[Import(module, line, (kind,) if kind else ())] = None
        if len(found) == MAX_DECLARED:
            break
    return tuple(found)


def _dockerfile(text: str) -> _Found:
    stages: set[str] = set()
    for found in re.finditer(
        r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?|^\s*COPY\s+--from=(\S+)",
        text,
        re.MULTILINE | re.IGNORECASE,
    ):
        named = found.group(1) or found.group(3)
        if named.lower() not in stages and not named.isdecimal() and named != "scratch":
            yield found.start(), named, "image"
        if found.group(2):
            stages.add(found.group(2).lower())


_YAML_LINE = re.compile(
    r"^[ \t]*(?:-[ \t]+)?(uses|image|build|context|local|extends|repository|template|project|file"
    r"|env_file|include):[ \t]+[\"']?([^\s\"'#{}\[\]|>&*][^\s\"'#]*)",
    re.MULTILINE,
)
_YAML_KINDS = {"uses": "uses", "image": "image", "build": "build", "context": "build"}


def _yaml(text: str) -> _Found:
    is_pipeline = re.search(r"^include:", text, re.MULTILINE) is not None
    is_chart = re.search(r"^apiVersion:\s*[\"']?v[12]\b", text, re.MULTILINE) is not None
    is_action = "uses:" in text
    for found in _YAML_LINE.finditer(text):
        key, value = found.groups()
        if key in ("build", "context") and is_action:
            continue  # an input of somebody's action, not a folder of compose
        if key in _YAML_KINDS and (key != "uses" or "/" in value):
            yield found.start(1), value, _YAML_KINDS[key]
        elif is_pipeline and key in ("local", "include") and "." in value:
            yield found.start(1), f"/{value.lstrip('/')}", "file"
        elif is_pipeline and key == "project":
            yield found.start(1), value, "project"
        elif is_chart and key == "repository":
            yield from _chart(text, found)
    if is_pipeline:
        yield from _listed(text)


def _chart(text: str, repository: re.Match[str]) -> _Found:
    """A dependency by its place when that is a folder here, else by its name."""
    if repository.group(2).startswith("file://"):
        yield repository.start(2), repository.group(2), "chart"
        return
    before = text[max(0, repository.start() - 300) : repository.end() + 300]
    named = re.findall(r"^\s*-?\s*name:\s*[\"']?([\w.-]+)", before, re.MULTILINE)
    if named:
        yield repository.start(2), named[-1], "dependency"


def _listed(text: str) -> _Found:
    """GitLab's short form: a list of paths below `include:`."""
    for block in re.finditer(r"^include:[ \t]*\n((?:[ \t]*-[ \t]*[^\n]*\n?)+)", text, re.MULTILINE):
        for item in re.finditer(r"-[ \t]+[\"']?(/?[\w./-]+\.ya?ml)\b", block.group(1)):
            yield block.start(1) + item.start(1), f"/{item.group(1).lstrip('/')}", "file"


def _hcl(text: str) -> _Found:
    for block in re.finditer(r"^module\s+\"[^\"]*\"\s*\{", text, re.MULTILINE):
        found = re.compile(r"^\s*source\s*=\s*\"([^\"]+)\"", re.MULTILINE).search(
            text, block.end(), block.end() + 4_000
        )
        if found:
            yield found.start(1), found.group(1), ""


def _manifest(path: str) -> Callable[[str], _Found]:
    """Dependencies of a manifest that is known by what is in it."""

    def reader(text: str) -> _Found:
        facts = manifests.read(path, text)
        for name in facts.uses if facts else ():
            yield max(text.find(name), 0), f"{facts.kind}:{name}" if facts else name, "package"

    return reader


def _json(text: str) -> _Found:
    if '"require"' in text or '"require-dev"' in text:
        yield from _manifest("composer.json")(text)
    elif 'ependencies"' in text:
        yield from _manifest("package.json")(text)
    elif '"apiVersion"' in text and '"kind"' in text:
        for found in re.finditer(r"\"image\"\s*:\s*\"([^\"\s]+)\"", text):
            yield found.start(1), found.group(1), "image"


def _toml(text: str) -> _Found:
    if re.search(r"^\[(?:package|workspace)\b", text, re.MULTILINE):
        yield from _manifest("Cargo.toml")(text)
    elif re.search(r"^\[(?:project|tool\.poetry)\b", text, re.MULTILINE):
        yield from _manifest("pyproject.toml")(text)


def _xml(text: str) -> _Found:
    if "<dependency>" in text:
        yield from _manifest("pom.xml")(text)
    elif "<PackageReference" in text:
        yield from _manifest("x.csproj")(text)


def _gradle(text: str) -> _Found:
    yield from _manifest("build.gradle")(text)


def _ruby(text: str) -> _Found:
    """The Gemfile and gem specifications, beside what the grammar reads."""
    if "gem " in text or "gem(" in text:
        yield from _manifest("Gemfile")(text)
    if "_dependency" in text:
        yield from _manifest("x.gemspec")(text)


_LINK = re.compile(
    r"\]\(\s*<?([^()\s<>]+)>?(?:\s+\"[^\"\n]*\")?\s*\)|^\[[^\]\n]+\]:\s+(\S+)", re.MULTILINE
)
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def _markdown(text: str) -> _Found:
    plain = _CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    for found in _LINK.finditer(plain):
        target = found.group(1) or found.group(2)
        if not re.match(r"[a-zA-Z][\w+.-]*:|#|//", target):
            yield found.start(), target, "file"


def _protobuf(text: str) -> _Found:
    for found in re.finditer(
        r"^\s*import\s+(?:public\s+|weak\s+)?\"([^\"]+)\"", text, re.MULTILINE
    ):
        yield found.start(1), found.group(1), ""


def _dart(text: str) -> _Found:
    for found in re.finditer(
        r"^\s*(?:import|export|part)\s+[\"']([^\"']+)[\"']", text, re.MULTILINE
    ):
        yield found.start(1), found.group(1), ""


_READERS: dict[str, Callable[[str], _Found]] = {
    "dockerfile": _dockerfile,
    "yaml": _yaml,
    "hcl": _hcl,
    "json": _json,
    "toml": _toml,
    "xml": _xml,
    "gomod": _manifest("go.mod"),
    "requirements": _manifest("requirements.txt"),
    "groovy": _gradle,
    "ruby": _ruby,
    "markdown": _markdown,
    "mdx": _markdown,
    "protobuf": _protobuf,
    "dart": _dart,
}
