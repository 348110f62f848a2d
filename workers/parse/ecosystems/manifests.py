"""Extract the facts of manifests: names of modules and packages, aliases, roots, dependencies.

Each reader takes the text of one manifest and returns its facts; an unreadable text has none. Only
facts that affect how imports resolve, or which names a repository publishes, are kept, so that a
version bump changes nothing. JSON, TOML, XML, and YAML are read by parsers, other formats by
regular expressions. The time is linear in the size of any text: no expression begins with
`^\\s*`, which would scan a run of blank lines once per line, and none looks for an end that may be
missing. TOML and YAML whose parsers would need quadratic time are refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from workers.parse.ecosystems import documents

#: Maximum size of a manifest, bytes; larger files are data.
MAX_MANIFEST_BYTES = 1_000_000

#: Maximum number of dots in a line of TOML: dotted keys have fewer than ten, lists may have more.
MAX_KEY_PARTS = 1_000

#: Maximum number of facts of one kind in a manifest; a manifest with more is generated.
MAX_FACTS = 2_000


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one manifest. Paths are as written, relative to its folder."""

    kind: str  # the ecosystem: `npm`, `ts`, `go`, `cargo`, `maven` …
    name: str = ""  # what the package is published as
    pairs: tuple[tuple[str, str], ...] = ()  # aliases, entries, replacements: from → to
    extends: tuple[str, ...] = ()  # manifests whose facts it inherits
    uses: tuple[str, ...] = ()  # names of packages it depends on


def read(path: str, text: str) -> Facts | None:
    """Return the facts of the manifest at `path`; None for another file or an unreadable one."""
    reader = _reader(path.rpartition("/")[2])
    if reader is None or len(text) > MAX_MANIFEST_BYTES:
        return None
    try:
        facts = reader(text, path)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None
    return facts and Facts(
        facts.kind,
        _whole(facts.name),
        tuple((_whole(name), _whole(to)) for name, to in facts.pairs),
        tuple(map(_whole, facts.extends)),
        tuple(map(_whole, facts.uses)),
    )


def _whole(text: str) -> str:
    """Replace halves of surrogate pairs, which JSON may hold and UTF-8 cannot."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def is_manifest(path: str) -> bool:
    """Return whether a file is a manifest by its name."""
    return _reader(path.rpartition("/")[2]) is not None


def loose_json(text: str) -> Any:
    """Parse JSON with comments and trailing commas, as JavaScript tools write it."""
    without = _JSON_NOISE.sub(lambda found: found.group(1) or "", text.lstrip("\ufeff"))
    return json.loads(_TRAILING_COMMA.sub(lambda found: found.group(1) or found.group(2), without))


#: Strings and unfinished comments are kept. A string without an end also matches, because otherwise
#: each of its escaped quotes would be taken for the start of a string.
_STRING = r'"(?:[^"\\\n]|\\.)*"?'
_JSON_NOISE = re.compile(rf"({_STRING}|/\*(?!.*?\*/).*)|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING})|,\s*([}}\]])")


def _package_json(text: str, path: str) -> Facts:
    data = _object(loose_json(text))
    entries = {
        **_entries(data.get("exports"), "."),
        **{f"#{name[1:]}": to for name, to in _entries(data.get("imports"), "#").items()},
    }
    for field in ("types", "main", "module", "source"):
        if isinstance(data.get(field), str):
            entries.setdefault(f"<{field}>", data[field])
    uses = [
        name
        for field in ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")
        for name in _object(data.get(field))
    ]
    return Facts("npm", _text(data.get("name")), _pairs(entries), uses=_distinct(uses))


def _entries(value: Any, prefix: str) -> dict[str, str]:
    """Return the file of each subpath of `exports` or `imports`, the first of nested conditions."""
    if isinstance(value, str):
        return {prefix: value}
    if not isinstance(value, dict):
        return {}
    if not any(str(key).startswith(prefix) for key in value):
        found = _first_file(value)
        return {prefix: found} if found else {}
    entries = {str(key): _first_file(to) for key, to in value.items()}
    return {key: to for key, to in entries.items() if to}


_CONDITIONS = ("source", "development", "import", "module", "default", "require", "node", "types")


def _first_file(value: Any, depth: int = 0) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return next((found for one in value if (found := _first_file(one, depth))), "")
    if not isinstance(value, dict) or depth > 8:
        return ""
    ordered = [*(value.get(name) for name in _CONDITIONS), *value.values()]
    return next((found for one in ordered if (found := _first_file(one, depth + 1))), "")


def _tsconfig(text: str, path: str) -> Facts:
    data = _object(loose_json(text))
    options = _object(data.get("compilerOptions"))
    pairs = {
        f"paths {pattern} {number}": to
        for pattern, targets in _object(options.get("paths")).items()
        for number, to in enumerate(targets if isinstance(targets, list) else ())
    }
    if isinstance(options.get("baseUrl"), str):
        pairs["baseUrl"] = options["baseUrl"]
    extends = data.get("extends", ())
    return Facts(
        "ts",
        pairs=_pairs(pairs),
        extends=_distinct([extends] if isinstance(extends, str) else extends),
    )


def _go_mod(text: str, path: str) -> Facts | None:
    text = re.sub(r"//[^\n]*", "", text)
    module = re.search(r'^[^\S\n]*module\s+"?([^\s"]+)', text, re.MULTILINE)
    if not module:
        return None
    replaced = re.findall(
        r"^[^\S\n]*(?:replace\s+)?([^\s()]+)(?:\s+v\S+)?\s+=>\s+(\.[^\s]*)", text, re.MULTILINE
    )
    uses = _GO_USED.findall(text)
    return Facts("go", module.group(1), _pairs(dict(replaced)), uses=_distinct(uses))


#: A module path, whose first part has a dot, and its version.
_GO_USED = re.compile(
    r"^[^\S\n]*(?:require\s+)?((?=[\w.~-][\w~-]*\.[\w./~-])(?>[\w./~-]+))\s+v\d\S*", re.MULTILINE
)


def _toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises ValueError for a line that may have a key with very many parts.

    The parser takes time quadratic in the parts of a key: 105 s for one of 450,000.
    """
    if any(line.count(".") > MAX_KEY_PARTS for line in text.split("\n")):
        raise ValueError(f"a line has more than {MAX_KEY_PARTS} dots")
    return tomllib.loads(text)


def _cargo(text: str, path: str) -> Facts:
    data = _toml(text)
    package = _object(data.get("package"))
    library = _object(data.get("lib"))
    name = _text(library.get("name")) or _text(package.get("name")).replace("-", "_")
    uses: list[str] = []
    renamed: dict[str, str] = {}
    for field in ("dependencies", "dev-dependencies", "build-dependencies"):
        for key, value in _object(data.get(field)).items():
            real = _text(value.get("package")) if isinstance(value, dict) else ""
            uses.append(real or key)
            if real:
                renamed[key.replace("-", "_")] = real.replace("-", "_")
    root = _text(library.get("path"))
    pairs = {**renamed, **({"<lib>": root} if root else {})}
    return Facts("cargo", name, _pairs(pairs), uses=_distinct(uses))


def _composer(text: str, path: str) -> Facts:
    data = _object(json.loads(text))
    pairs: dict[str, str] = {}
    for field in ("autoload", "autoload-dev"):
        for style in ("psr-4", "psr-0"):
            for prefix, folders in _object(_object(data.get(field)).get(style)).items():
                listed = [folders] if isinstance(folders, str) else folders
                for folder in listed:
                    kept = prefix if style == "psr-0" else ""
                    under = "/".join(part for part in (folder.strip("/"), _slashes(kept)) if part)
                    pairs[f"{prefix} {len(pairs)}"] = under
    uses = [*_object(data.get("require")), *_object(data.get("require-dev"))]
    return Facts("composer", _text(data.get("name")).lower(), _pairs(pairs), uses=_distinct(uses))


def _slashes(namespace: str) -> str:
    return namespace.strip("\\").replace("\\", "/")


def _pom(text: str, path: str) -> Facts:
    project = documents.xml(text)
    pairs = (
        (documents.word(one, "groupId"), documents.word(one, "artifactId"))
        for one in project.iterfind(".//dependency")
    )
    own = documents.word(project, "groupId")
    group = own or documents.word(project, "parent/groupId")
    artifact = documents.word(project, "artifactId")
    return Facts(
        "maven",
        f"{group}:{artifact}" if artifact else "",
        uses=_distinct(":".join(pair) for pair in pairs if all(pair)),
    )


#: A word, which names a configuration if it contains `_CONFIGURATION`, and coordinates after it.
_ADDED = re.compile(
    r"^[^\S\n]*(\w+)[\s(]+(?:platform\()?[\"']([\w.-]+:[\w.-]+)", re.MULTILINE | re.IGNORECASE
)
_CONFIGURATION = re.compile(
    r"implementation|api|compile|runtimeOnly|kapt|ksp|annotationProcessor", re.IGNORECASE
)


def _gradle(text: str, path: str) -> Facts:
    group = re.search(r"^[^\S\n]*group\s*(?:=\s*)?[\"']([\w.-]+)[\"']", text, re.MULTILINE)
    folder = path.rpartition("/")[0].rpartition("/")[2]
    name = f"{group.group(1)}:{folder}" if group and folder else ""
    uses = (
        to for configuration, to in _ADDED.findall(text) if _CONFIGURATION.search(configuration)
    )
    return Facts("maven", name, uses=_distinct(uses))


def _pyproject(text: str, path: str) -> Facts:
    data = _toml(text)
    project = _object(data.get("project"))
    poetry = _object(_object(data.get("tool")).get("poetry"))
    listed = [*_list(project.get("dependencies"))]
    for group in _object(project.get("optional-dependencies")).values():
        listed += _list(group)
    uses = [_requirement(one) for one in listed] + list(_object(poetry.get("dependencies")))
    name = _text(project.get("name")) or _text(poetry.get("name"))
    return Facts("pypi", distribution(name), uses=_distinct(map(distribution, uses)))


def _setup_py(text: str, path: str) -> Facts:
    name = re.search(r"\bname\s*=\s*[\"']([\w.-]+)[\"']", text)
    return Facts("pypi", distribution(name.group(1)) if name else "")


def _setup_cfg(text: str, path: str) -> Facts:
    name = re.search(r"^name\s*=\s*([\w.-]+)\s*$", text, re.MULTILINE)
    return Facts("pypi", distribution(name.group(1)) if name else "")


def _requirements(text: str, path: str) -> Facts:
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return Facts("pypi", uses=_distinct(distribution(_requirement(line)) for line in lines if line))


def _requirement(text: str) -> str:
    found = re.match(r"[A-Za-z0-9][\w.-]*", text) if isinstance(text, str) else None
    return found.group() if found else ""


def distribution(name: str) -> str:
    """Return a distribution's name as the Python package index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _csproj(text: str, path: str) -> Facts:
    project = documents.xml(text)

    def named(*names: str) -> str:
        values = (documents.word(project, f".//{name}") for name in names)
        found = next(filter(None, values), "")
        stem = path.rpartition("/")[2].rpartition(".")[0]
        return stem if not found or "$(" in found else found

    uses = (
        one.get("Include") or one.get("Update") for one in project.iterfind(".//PackageReference")
    )
    pairs = {"<root>": named("RootNamespace", "AssemblyName")}
    name = named("PackageId", "AssemblyName").lower()
    return Facts("nuget", name, _pairs(pairs), uses=_distinct(uses))


def _gemspec(text: str, path: str) -> Facts:
    stem = path.rpartition("/")[2].rpartition(".")[0]
    named = re.search(r"\.name\s*=\s*[\"']([\w.-]+)[\"']", text)
    uses = re.findall(r"\.add_(?:\w+_)?dependency[\s(]+[\"']([\w.-]+)", text)
    return Facts("gem", named.group(1) if named else stem, uses=_distinct(uses))


def _gemfile(text: str, path: str) -> Facts:
    uses = re.findall(r"^[^\S\n]*gem[\s(]+[\"']([\w.-]+)", text, re.MULTILINE)
    return Facts("gem", uses=_distinct(uses))


def _chart(text: str, path: str) -> Facts:
    return Facts("chart", _text(_object(documents.yaml_document(text)).get("name")))


def _action(text: str, path: str) -> Facts | None:
    return Facts("action") if "runs" in _object(documents.yaml_document(text)) else None


def _pubspec(text: str, path: str) -> Facts:
    return Facts("pub", _text(_object(documents.yaml_document(text)).get("name")))


def _compose(text: str, path: str) -> Facts:
    """Read the names of the images that services build, under which other repositories use them."""
    services = _object(_object(documents.yaml_document(text)).get("services")).values()
    images = (_text(one.get("image")) for one in map(_merged, services) if "build" in one)
    return Facts("image", pairs=_pairs({image(one): "." for one in images if one}))


def _merged(value: Any) -> Mapping[str, Any]:
    """Return a mapping together with the entries that it merges: `<<: *default`."""
    own = _object(value)
    return {**_object(own.get("<<")), **own}


_PUSHED = re.compile(r"docker push\s+([^\s]+)")


def _workflow(text: str, path: str) -> Facts | None:
    """Read the images that a workflow pushes."""
    if "build-push-action" not in text and "docker push" not in text:
        return None
    found = [*_tags(documents.yaml_document(text)), *_PUSHED.findall(text)]
    named = {image(one): "." for one in found if "/" in one and not set(one) & set("$=")}
    return Facts("image", pairs=_pairs(named))


def _tags(workflow: Any) -> Iterator[str]:
    """Yield the names that the steps of a workflow give to images; a text may have several."""
    for job in _object(_object(workflow).get("jobs")).values():
        for step in _list(_object(job).get("steps")):
            given = _object(_object(step).get("with"))
            for field in ("tags", "images"):
                yield from re.split(r"[\s,]+", _text(given.get(field)))


def image(written: str) -> str:
    """Return an image's name without tag and digest: `ghcr.io/acme/app:1` → `ghcr.io/acme/app`."""
    name = written.strip("\"'").split("@", 1)[0]
    head, slash, last = name.rpartition("/")
    name = f"{head}{slash}{last.split(':', 1)[0]}"
    return name.removeprefix("docker.io/").removeprefix("library/").lower()


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _pairs(found: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    whole = {key: to for key, to in found.items() if isinstance(to, str)}
    return tuple(sorted(whole.items())[:MAX_FACTS])


def _distinct(names: Any) -> tuple[str, ...]:
    found: Iterator[str] = (name for name in names if isinstance(name, str) and name)
    return tuple(dict.fromkeys(found))[:MAX_FACTS]


_Reader = Callable[[str, str], Facts | None]

_BY_NAME: dict[str, _Reader] = {
    "package.json": _package_json,
    "go.mod": _go_mod,
    "Cargo.toml": _cargo,
    "composer.json": _composer,
    "pom.xml": _pom,
    "build.gradle": _gradle,
    "build.gradle.kts": _gradle,
    "pyproject.toml": _pyproject,
    "setup.py": _setup_py,
    "setup.cfg": _setup_cfg,
    "Gemfile": _gemfile,
    "Chart.yaml": _chart,
    "action.yml": _action,
    "action.yaml": _action,
    "pubspec.yaml": _pubspec,
}
_BY_PATTERN: tuple[tuple[re.Pattern[str], _Reader], ...] = (
    (re.compile(r"(?:ts|js)config[\w.-]*\.json"), _tsconfig),
    (re.compile(r".*\.csproj"), _csproj),
    (re.compile(r".*\.gemspec"), _gemspec),
    (re.compile(r"(?:docker-)?compose[\w.-]*\.ya?ml"), _compose),
    (re.compile(r"requirements[\w.-]*\.txt"), _requirements),
    (re.compile(r"(?>.*?(?:release|docker|publish|image|build|deploy|ci)).*\.ya?ml"), _workflow),
)


def _reader(name: str) -> _Reader | None:
    found = _BY_NAME.get(name)
    if found is not None or not name.endswith(_SUFFIXES):
        return found
    return next((reader for pattern, reader in _BY_PATTERN if pattern.fullmatch(name)), None)


_SUFFIXES = (".json", ".csproj", ".gemspec", ".yaml", ".yml", "s.txt")
