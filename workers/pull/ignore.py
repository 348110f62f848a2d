"""Decide which files of a commit are skipped, with the reason to record for each.

Git applies `.gitignore` only to untracked files, and every file of a commit is tracked, so it is
not read here: redis commits `deps/jemalloc/configure` in spite of it. The first rule that matches
decides, in this order:

1. the kind of entry, its extension, its size
2. the operator's exclude patterns
3. the operator's include patterns, if there are any: a file that matches none is skipped
4. `.codelodeignore`, in which `!pattern` includes a file; the file nearest to the entry wins
5. the folders listed below

The operator's patterns are read like a `.codelodeignore` at the root, so `!pattern` among the
exclude patterns also includes a file. An include pattern does not override the later rules: `*.py`
does not include the files of `node_modules`.

A folder that contains source in one project and output in another (`dist`, `vendor`, `target`) is
skipped only if a file next to it belongs to a tool that writes this folder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from codelode import patterns
from codelode.errors import Rejected
from codelode.model import ALL_FILES, FilePatterns, SourceFile
from workers.pull import tree

#: Raise it when a rule below changes, so that skipped files are examined again.
VERSION = "2"

IGNORE_FILE = ".codelodeignore"

#: Maximum number of folders above a file; the deepest paths of real repositories have about 30.
MAX_DEPTH = 100

#: Folders that are never a project's own source.
FOLDERS = {
    **dict.fromkeys(
        (
            "node_modules", "bower_components", "jspm_packages", "web_modules", "site-packages",
            "__pypackages__", ".venv", "virtualenv", ".tox", ".nox", ".eggs", ".bundle", "Pods",
            "elm-stuff", ".pnpm-store", ".terraform", "Godeps",
        ),
        "vendored",
    ),
    **dict.fromkeys(
        (
            "__pycache__", ".next", ".nuxt", ".svelte-kit", ".output", ".parcel-cache", ".turbo",
            ".angular", ".docusaurus", ".gradle", ".dart_tool", ".mypy_cache", ".pytest_cache",
            ".ruff_cache", ".nyc_output", ".sass-cache", "htmlcov", "DerivedData", ".git", ".svn",
            ".hg",
        ),
        "build_output",
    ),
}  # fmt: skip

#: Folders that a tool writes, recognised by a file of the tool next to the folder.
FILLED_FOLDERS = {
    "vendor": (
        "vendored",
        ("go.mod", "composer.json", "Gemfile", "Cargo.toml", "Gopkg.toml", "glide.yaml"),
    ),
    "deps": ("vendored", ("mix.exs", "rebar.config")),
    "packages": ("vendored", ("packages.config",)),
    "dist": ("build_output", ("package.json", "bower.json", "pyproject.toml", "setup.py")),
    "target": ("build_output", ("Cargo.toml", "pom.xml", "build.sbt", "project.clj")),
}
FILLING_FILES = frozenset(name for _, names in FILLED_FOLDERS.values() for name in names)

_EXTENSIONS = {
    "media": (
        "png jpg jpeg gif bmp ico icns webp avif heic tif tiff psd xcf ai eps svg svgz sketch fig "
        "mp3 wav flac ogg oga opus m4a aac mid midi mp4 m4v mov avi mkv webm wmv flv mpg mpeg swf "
        "blend fbx glb dds ktx tga exr"
    ),
    "font": "ttf otf woff woff2 eot ttc pfb pfm",
    "archive": (
        "zip tar gz tgz bz2 tbz2 xz txz zst lz4 lzma 7z rar jar war ear aar whl egg gem nupkg "
        "crate deb rpm apk ipa dmg pkg iso cab msi vsix"
    ),
    "binary": (
        "exe dll so dylib a lib o obj ko class pyc pyo pyd wasm bin elc beam pdb ilk node "
        "db sqlite sqlite3 mdb dbf parquet avro orc feather arrow npy npz pkl pickle joblib "
        "h5 hdf5 mat rds rda onnx pt pth ckpt safetensors gguf tflite pdf doc docx xls xlsx ppt "
        "pptx odt ods odp epub mobi p12 pfx jks keystore der swp mo"
    ),
}
EXTENSIONS = {
    extension: reason for reason, listed in _EXTENSIONS.items() for extension in listed.split()
}

#: Reasons for an entry that is not a file, and for a file that is too large.
NO_FILE = (_SUBMODULE, _SYMLINK) = ("submodule", "symlink")
TOO_LARGE = "too_large"

#: All reasons to skip a file that are found without reading it.
REASONS = frozenset(
    {
        *NO_FILE, "missing", "too_deep", TOO_LARGE, "excluded", "not_included",
        "codelodeignore",
        *EXTENSIONS.values(), *FOLDERS.values(), *(reason for reason, _ in FILLED_FOLDERS.values()),
    }
)  # fmt: skip

#: Kinds of patterns that the operator sets: fields of `FilePatterns`.
_OPERATORS = (_INCLUDE, _EXCLUDE) = ("include", "exclude")

_Chain = tuple[tuple[int, patterns.Patterns], ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one commit. `read` returns the content of a path in it, or None.

    An ignore file larger than `max_file_bytes` raises Rejected: it is not known what it leaves out.
    """

    read: Callable[[str], bytes | None]
    max_file_bytes: int
    operators: FilePatterns = ALL_FILES
    _chains: dict[tuple[str, str], _Chain] = field(default_factory=dict, repr=False)
    _nearest: dict[tuple[str, str], bool | None] = field(default_factory=dict, repr=False)
    _folders: dict[str, str] = field(default_factory=dict, repr=False)
    _parsed: dict[bytes, patterns.Patterns] = field(default_factory=dict, repr=False)

    def reason(self, file: SourceFile) -> str:
        """Return the reason to skip the file, a stable identifier; empty: index it."""
        if by_itself := self._reason_in_file(file):
            return by_itself
        verdict = self._nearest_verdict(_EXCLUDE, file.path)
        if verdict:
            return "excluded"
        if not self.is_included(file.path):
            return "not_included"
        if verdict is None:
            verdict = self._nearest_verdict(IGNORE_FILE, file.path)
        if verdict is not None:
            return "codelodeignore" if verdict else ""
        folder = _folder(file.path)
        return self._folder_reason(folder) if folder else ""

    def is_included(self, path: str) -> bool:
        """Return whether the operator's patterns include the file."""
        return not self.operators.include or bool(self._nearest_verdict(_INCLUDE, path))

    def _reason_in_file(self, file: SourceFile) -> str:
        if file.mode == tree.SUBMODULE:
            return _SUBMODULE
        if file.mode == tree.SYMLINK:
            return _SYMLINK
        if file.size_bytes == tree.MISSING:
            return "missing"
        if file.path.count("/") > MAX_DEPTH:
            return "too_deep"
        stem, _, extension = file.path.rpartition("/")[2].rpartition(".")
        if stem and (reason := EXTENSIONS.get(extension.lower(), "")):
            return reason
        return TOO_LARGE if file.size_bytes > self.max_file_bytes else ""

    def _nearest_verdict(self, kind: str, path: str, *, is_folder: bool = False) -> bool | None:
        """Return the verdict of the patterns on the path or its nearest matching folder."""
        if not path:
            return None
        key = (kind, path)
        if is_folder and key in self._nearest:
            return self._nearest[key]
        verdict = self._verdict(kind, path, is_folder=is_folder)
        if verdict is None:
            verdict = self._nearest_verdict(kind, _folder(path), is_folder=True)
        if is_folder:
            self._nearest[key] = verdict
        return verdict

    def _folder_reason(self, folder: str) -> str:
        """Return the reason to skip the whole folder; the outermost folder decides first."""
        if folder not in self._folders:
            above = _folder(folder)
            by_parent = self._folder_reason(above) if above else ""
            self._folders[folder] = by_parent or self._own_folder_reason(folder)
        return self._folders[folder]

    def _own_folder_reason(self, folder: str) -> str:
        above, _, name = folder.rpartition("/")
        if reason := FOLDERS.get(name, ""):
            return reason
        reason, filling = FILLED_FOLDERS.get(name, ("", ()))
        prefix = f"{above}/" if above else ""
        return reason if any(self.read(prefix + file) is not None for file in filling) else ""

    def _verdict(self, kind: str, path: str, *, is_folder: bool) -> bool | None:
        """Return the verdict of the deepest ignore file that matches exactly this path."""
        names = path.split("/")
        for depth, found in self._chain(kind, _folder(path)):
            verdict = found.verdict(names[depth:], is_folder=is_folder)
            if verdict is not None:
                return verdict
        return None

    def _chain(self, kind: str, folder: str) -> _Chain:
        """Return the ignore files that apply to a folder's entries, with depths, deepest first."""
        key = (kind, folder)
        if key not in self._chains:
            above = self._chain(kind, _folder(folder)) if folder else ()
            content = self._content(kind, folder)
            depth = folder.count("/") + 1 if folder else 0
            own = ((depth, self._parse(content)),) if content is not None else ()
            self._chains[key] = own + above
        return self._chains[key]

    def _parse(self, content: bytes) -> patterns.Patterns:
        """Parse an ignore file; many folders may have the same one."""
        if content not in self._parsed:
            self._parsed[content] = patterns.parse(content)
        return self._parsed[content]

    def _content(self, kind: str, folder: str) -> bytes | None:
        """Return the ignore file of a folder; the operator's patterns act as one at the root."""
        if kind in _OPERATORS:
            lines: tuple[str, ...] = () if folder else getattr(self.operators, kind)
            return "\n".join(lines).encode() if lines else None
        path = f"{folder}/{kind}" if folder else kind
        content = self.read(path)
        if content is not None and len(content) > self.max_file_bytes:
            raise Rejected(
                f"{path} is larger than the {self.max_file_bytes} bytes that "
                "CODELODE_MAX_FILE_BYTES allows, so it is not known which files it leaves out"
            )
        return content


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
