"""From an import to the files that it means: one resolver per ecosystem."""

from __future__ import annotations

from codelode.model import Import
from workers.parse.imports import compiled, ecmascript, infrastructure, python, scripted
from workers.parse.imports.layout import Layout
from workers.parse.imports.resolved import EXTERNAL, Resolved
from workers.parse.imports.scripted import Resolver

#: A longer module is no name.
MAX_MODULE_CHARS = 1_000

_RESOLVERS: dict[str, Resolver] = {
    "python": python.resolve,
    **dict.fromkeys(
        ("javascript", "typescript", "tsx", "vue", "svelte", "astro"), ecmascript.resolve
    ),
    "go": compiled.go,
    **dict.fromkeys(("java", "kotlin", "scala", "groovy"), compiled.jvm),
    "rust": compiled.rust,
    **dict.fromkeys(("c", "cpp", "objc", "cuda"), compiled.c),
    "csharp": compiled.csharp,
    "ruby": scripted.ruby,
    "php": scripted.php,
    "lua": scripted.dotted(".lua", "/init.lua", roots=("", "lua", "src", "lib")),
    "haskell": scripted.dotted(".hs", ".hsc", roots=("src", "lib", "", "app")),
    "elixir": scripted.elixir,
    "zig": scripted.zig,
    "bash": scripted.bash,
    "dart": scripted.dart,
    "protobuf": scripted.by_path("", anywhere=True),
    **dict.fromkeys(("scss", "less", "css"), scripted.by_path("", ".scss", ".css", roots=())),
    "hcl": infrastructure.terraform,
    "yaml": infrastructure.yaml,
    **dict.fromkeys(("markdown", "mdx"), infrastructure.markdown),
}

#: Ecosystem of manifests → languages whose imports they shape.
LANGUAGES_OF = {
    "npm": ("javascript", "typescript", "tsx", "vue", "svelte", "astro"),
    "ts": ("javascript", "typescript", "tsx", "vue", "svelte", "astro"),
    "go": ("go",),
    "cargo": ("rust",),
    "composer": ("php",),
    "nuget": ("csharp",),
    "gem": ("ruby",),
    "pypi": ("python",),
    "pub": ("dart",),
}


def resolve(imp: Import, *, path: str, language: str, layout: Layout) -> Resolved:
    """The files that an import of the file at `path` means, the file itself among them."""
    is_declared = imp.names[:1] == ("package",)
    resolver = infrastructure.package if is_declared else _RESOLVERS.get(language)
    if resolver is None or not _is_sound(imp):
        return EXTERNAL
    return resolver(imp, path, layout)


def _is_sound(imp: Import) -> bool:
    return 0 < len(imp.module) <= MAX_MODULE_CHARS and "\0" not in imp.module
