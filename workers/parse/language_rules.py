"""List the rules of each language: one row with everything that parsing does differently for it.

To add a language:

1. Add a row to `codelode/language_table.py`: names, extensions, grammar. Its files are now cut
   into chunks at syntax boundaries.
2. Add `queries/<language>.scm`: definitions and `@import` statements, and below the line
   `; uses of names` calls, instantiations, and inherited bases. Symbols and uses are now found.
3. Add a row here if the language has its own rules for exports, imports, or names. Functions for
   imports are in `ecosystems`, one module per ecosystem.

`tests/workers/parse/test_language_table.py` says what is missing for a language.
"""

from __future__ import annotations

from dataclasses import replace

from codelode.model import Kind
from workers.parse import attributes, exports, infrastructure
from workers.parse.ecosystems import (
    c,
    csharp,
    dependencies,
    docker,
    ecmascript,
    elixir,
    go,
    jvm,
    markdown,
    paths,
    php,
    python,
    ruby,
    rust,
    terraform,
    yaml,
)
from workers.parse.ecosystems.statement import by_pattern, grouped, quoted_lines
from workers.parse.rules import Rules

_ECMASCRIPT = Rules(
    is_exported=exports.export_statement,
    default_export=ecmascript.default_export,
    statements=ecmascript.statements,
    resolve=ecmascript.resolve,
    packages=ecmascript.packages,
    manifests=("npm", "ts"),
)
#: Rules for files with sections, each of which is read in its own language.
_COMPONENT = Rules(
    resolve=ecmascript.resolve,
    packages=ecmascript.packages,
    manifests=("npm", "ts"),
    sections={
        "script_element": "javascript",
        "style_element": "css",
        "frontmatter": "typescript",
    },
)
_JVM = Rules(resolve=jvm.resolve, packages=jvm.packages, rivals=jvm.EXTENSIONS)
_C = Rules(resolve=c.resolve, masked=attributes.masked)
_STYLES = Rules(resolve=paths.by_path("", ".scss", ".css", roots=()))
_LINKS = Rules(references=markdown.references, resolve=markdown.resolve)
_UNDERSCORE = Rules(is_exported=exports.no_leading_underscore)

RULES: dict[str, Rules] = {
    # General purpose
    "python": Rules(
        is_exported=exports.no_leading_underscore,
        has_docstrings=True,
        statements=python.statements,
        resolve=python.resolve,
        packages=python.packages,
        manifests=("pypi",),
    ),
    "javascript": replace(_ECMASCRIPT, is_minified_often=True),
    "typescript": _ECMASCRIPT,
    "tsx": _ECMASCRIPT,
    "vue": _COMPONENT,
    "svelte": _COMPONENT,
    "astro": _COMPONENT,
    "go": Rules(
        is_exported=exports.capital,
        statements=go.statements,
        resolve=go.resolve,
        packages=go.packages,
        manifests=("go",),
    ),
    "rust": Rules(
        is_exported=exports.pub,
        joints=(b"::",),
        statements=rust.statements,
        resolve=rust.resolve,
        packages=rust.packages,
        manifests=("cargo",),
    ),
    "java": replace(_JVM, is_exported=exports.public, statements=jvm.java),
    "kotlin": replace(_JVM, is_exported=exports.not_restricted, statements=jvm.kotlin),
    "scala": replace(_JVM, is_exported=exports.not_restricted, statements=grouped),
    "groovy": replace(_JVM, references=dependencies.of_manifest("build.gradle")),
    "c": replace(_C, is_exported=exports.not_static, statements=c.statements),
    "cpp": replace(_C, is_exported=exports.not_static, statements=c.statements),
    "objc": _C,
    "cuda": _C,
    "csharp": Rules(
        is_exported=exports.public,
        statements=csharp.statements,
        resolve=csharp.resolve,
        manifests=("nuget",),
    ),
    "ruby": Rules(
        is_exported=exports.no_leading_underscore,
        statements=ruby.statements,
        references=dependencies.ruby,
        resolve=ruby.resolve,
        packages=ruby.packages,
        manifests=("gem",),
        rivals=(".rb",),
    ),
    "php": Rules(
        is_exported=exports.not_restricted,
        joints=(b"::", b"\\"),
        statements=php.statements,
        resolve=php.resolve,
        packages=php.packages,
        manifests=("composer",),
        rivals=(".php",),
    ),
    "swift": Rules(
        is_exported=exports.not_private,
        statements=by_pattern(
            r"import\s+(?:(?:class|struct|func|enum|protocol)\s+)?(?P<module>[\w.]+)"
        ),
    ),
    "dart": Rules(
        is_exported=exports.no_leading_underscore,
        references=quoted_lines(r"^[^\S\n]*(?:import|export|part)\s+[\"']([^\"']+)[\"']"),
        resolve=paths.dart,
        manifests=("pub",),
    ),
    "zig": Rules(
        is_exported=exports.pub_or_export,
        statements=by_pattern(r"\"(?P<module>[^\"\n]+)\""),
        resolve=paths.zig,
    ),
    "nim": Rules(is_exported=exports.star),
    "d": Rules(is_exported=exports.not_private),
    "solidity": Rules(is_exported=exports.not_internal),
    "apex": Rules(is_exported=exports.public),
    "gdscript": _UNDERSCORE,
    # Scripts and shells
    "bash": Rules(
        block_types={Kind.FUNCTION: "function"},
        statements=by_pattern(r"(?:source|\.)\s+[\"']?(?P<module>[^\s\"';]+)"),
        resolve=paths.bash,
    ),
    "lua": Rules(
        is_exported=exports.not_local,
        statements=by_pattern(r"[\"'](?P<module>[^\"'\n]+)[\"']"),
        resolve=paths.dotted(".lua", "/init.lua", roots=("", "lua", "src", "lib")),
        rivals=(".lua",),
    ),
    "luau": Rules(is_exported=exports.not_local),
    "perl": _UNDERSCORE,
    "starlark": _UNDERSCORE,
    "r": Rules(is_exported=exports.no_leading_dot),
    # Functional
    "haskell": Rules(
        has_clauses=True,
        statements=by_pattern(r"import\s+(?:qualified\s+)?(?P<module>[\w.]+)"),
        resolve=paths.dotted(".hs", ".hsc", roots=("src", "lib", "", "app")),
    ),
    "elixir": Rules(
        is_exported=exports.not_defp,
        has_clauses=True,
        statements=elixir.statements,
        resolve=elixir.resolve,
    ),
    "erlang": Rules(is_exported=exports.not_function, has_clauses=True, lists_members=True),
    "clojure": Rules(is_exported=exports.not_defn_),
    "gleam": Rules(is_exported=exports.pub),
    # Schemas, styles, prose
    "protobuf": Rules(
        references=quoted_lines(r"^[^\S\n]*import\s+(?:public\s+|weak\s+)?\"([^\"]+)\""),
        resolve=paths.by_path("", anywhere=True),
    ),
    "css": replace(_STYLES, is_minified_often=True),
    "scss": _STYLES,
    "less": _STYLES,
    "markdown": _LINKS,
    "mdx": _LINKS,
    # Infrastructure and data
    "hcl": Rules(
        blocks=infrastructure.terraform.blocks,
        references=terraform.references,
        resolve=terraform.resolve,
        packages=terraform.packages,
    ),
    "dockerfile": Rules(
        blocks=infrastructure.dockerfile.blocks,
        references=docker.references,
        packages=docker.packages,
    ),
    "yaml": Rules(
        blocks=infrastructure.yaml_files.blocks,
        references=yaml.references,
        resolve=yaml.resolve,
        packages=yaml.packages,
    ),
    "json": Rules(
        blocks=infrastructure.kubernetes.json_blocks,
        references=dependencies.json,
        packages=yaml.packages,
    ),
    "toml": Rules(references=dependencies.toml),
    "xml": Rules(references=dependencies.xml),
    "gomod": Rules(references=dependencies.of_manifest("go.mod")),
    "requirements": Rules(references=dependencies.of_manifest("requirements.txt")),
}

_NO_RULES = Rules()


def rules_of(language: str) -> Rules:
    """Return the rules of a language; a language without a row has none."""
    return RULES.get(language, _NO_RULES)
