"""The language and the category of a file, by its path and the head of its content.

`detect` returns the language, `category` what the file is for. Both read the path first, and the
content only where the path is ambiguous. A file that nothing matches is `text`. Path conventions
follow github-linguist's lists of vendored and generated files, reduced to those that hold across
ecosystems. The languages are rows of `language_table`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from codelode import infrastructure
from codelode.language_table import LANGUAGES, TEXT, Language
from codelode.model import Category

__all__ = [
    "BY_NAME",
    "LANGUAGES",
    "QUERIES_FOLDER",
    "TEXT",
    "Language",
    "category",
    "detect",
    "is_generated",
    "is_lock_file",
    "is_marked_generated",
    "names",
    "resolve",
    "traits",
]

#: Folder of a repository with its own queries, in files `<language>.scm`.
QUERIES_FOLDER = ".codelode/queries/"

#: Number of first lines in which a generated-marker counts; below, it may be a string constant.
MARKER_LINES = 20

#: Number of first columns in which a generated-marker counts; beyond, it is data on a long line.
_MARKER_COLUMNS = 300

BY_NAME = {language.name: language for language in LANGUAGES}
_BY_EXTENSION = {ext: language for language in LANGUAGES for ext in language.extensions}
_BY_FILENAME = {name: language for language in LANGUAGES for name in language.filenames}
_BY_ALIAS = {alias: language for language in LANGUAGES for alias in language.aliases}
_BY_INTERPRETER = {name: language for language in LANGUAGES for name in language.interpreters}

#: Suffixes of templates from which other files are made, and of samples that are copied.
_TEMPLATES = (
    *(".eex", ".erb", ".ejs", ".ftl", ".gotmpl", ".handlebars", ".hbs", ".j2", ".jinja"),
    *(".jinja2", ".liquid", ".mustache", ".njk", ".stub", ".template", ".tmpl", ".tpl", ".tt"),
    *(".vm", ".dist", ".example", ".in", ".sample"),
)

#: Languages of pages and mails. Their templates may be in a language of its own, such as ERB.
_PAGES = frozenset({"html", "xml", "text"})

_SHEBANG = re.compile(rb"#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+|\w+=\S*\s+)*(?:\S*/)?)?([\w+-]+)")
_CPP_HEAD = re.compile(
    rb"^[^\S\n]*+(?:namespace\b[^;.{]{0,200}\{|template\s*<|class\s+(?:\w+\s+){0,2}\w+\s*[:{;]"
    rb"|using\s+(?:namespace\b|\w+\s*=|[\w:]+;)|public:|private:|protected:)"
    rb"|\bstd::|\bconstexpr\b|\bnullptr\b|#\s*include\s*<(?:c?[a-z_]+)>|\boperator\s*[=<>+*(-]",
    re.MULTILINE,
)
_OBJC_HEAD = re.compile(
    rb"^[^\S\n]*+(?:@(?:interface|protocol|class|import|implementation)\b|#import\b)", re.MULTILINE
)
_MATLAB_HEAD = re.compile(rb"^[^\S\n]*+(?:%|function\b|classdef\b)", re.MULTILINE)
_XML_HEAD = re.compile(rb"\s*(?:\xef\xbb\xbf)?<(?:\?xml|!DOCTYPE TS)")


def detect(path: str, head: bytes = b"") -> Language:
    """Return the language of a file by name, then extension, then `#!` line; else `text`.

    `head`, the beginning of the content, decides about `.h`, `.m` and `.ts`; without it they
    are C, Objective-C and TypeScript.
    """
    name = _made(path).rsplit("/", 1)[-1]
    found = _by_name(name) or _by_shebang(head) or TEXT
    return _settle(name.lower(), found, head)


def resolve(name_or_alias: str) -> str | None:
    """Return the canonical name of a language: `terraform` → `hcl`, `.py` → `python`; or None."""
    asked = name_or_alias.strip().lower()
    extension = asked if asked.startswith(".") else f".{asked}"
    found = BY_NAME.get(asked) or _BY_ALIAS.get(asked) or _BY_EXTENSION.get(extension)
    return found.name if found else None


def _made(path: str) -> str:
    """Return the path of the file that is made from a template: `mix.exs.eex` → `mix.exs`.

    Other paths are returned as they are, and so is that of a page if its template is in a language
    of its own, such as `show.html.erb`.
    """
    inner = path
    while inner.lower().endswith(_TEMPLATES):
        inner = inner.rpartition(".")[0]
    if inner == path:
        return path
    made, own = (_by_name(one.rpartition("/")[2]) for one in (inner, path))
    is_page = made is not None and made.name in _PAGES
    return path if made is None or (is_page and own and own.grammar) else inner


def _by_name(name: str) -> Language | None:
    lower = name.lower()
    found = _BY_FILENAME.get(lower)
    if found:
        return found
    for suffix in _suffixes(name):
        found = _BY_EXTENSION.get(suffix) or _BY_EXTENSION.get(suffix.lower())
        if found:
            return found
    # `Dockerfile.dev`, `Makefile.am`, `Jenkinsfile.release`: the stem decides.
    return _BY_FILENAME.get(lower.split(".", 1)[0])


def _suffixes(name: str) -> Iterator[str]:
    """Yield the suffixes of a name, the longest first: `a.blade.php` → `.blade.php`, `.php`."""
    at = name.find(".")
    while at >= 0:
        yield name[at:]
        at = name.find(".", at + 1)


def _by_shebang(head: bytes) -> Language | None:
    match = _SHEBANG.match(head)
    if not match:
        return None
    program = match.group(1).decode("ascii", "replace").lower()
    return _BY_INTERPRETER.get(program) or _BY_INTERPRETER.get(program.rstrip("0123456789"))


def _settle(name: str, found: Language, head: bytes) -> Language:
    if not head:
        return found
    if found.name == "starlark" and "." not in name:  # `BUILD`, or a script called `build`
        return _by_shebang(head) or found
    if found.name == "c" and name.endswith(".h"):
        return _header(head)
    if found.name == "objc" and name.endswith(".m"):
        is_matlab = _MATLAB_HEAD.search(head) and not _OBJC_HEAD.search(head)
        return BY_NAME["matlab"] if is_matlab else found
    if found.name == "typescript" and _XML_HEAD.match(head):
        return BY_NAME["xml"]
    return found


def _header(head: bytes) -> Language:
    if _OBJC_HEAD.search(head):
        return BY_NAME["objc"]
    return BY_NAME["cpp" if _CPP_HEAD.search(head) else "c"]


# Categories


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VENDORED_DIRS = _words(
    "vendor _vendor third_party third-party thirdparty 3rdparty 3rd_party node_modules "
    "bower_components jspm_packages godeps pods carthage site-packages .yarn extern external "
    "_vendored vendored"
)
#: Folders below these are packages, where `com.acme.external` is not vendored.
_PACKAGE_ROOTS = _words("java kotlin scala groovy")
_PACKAGES = _words("external extern vendor")
_VENDORED_NAMES = _words("gradlew gradlew.bat mvnw mvnw.cmd")
#: `testing` may be the folder of a library, but treating it as source lost .001 of NDCG@10 over all
#: repositories.
_TEST_DIRS = _words(
    "test tests __tests__ testing testdata test-data test_data spec specs __mocks__ mocks "
    "fixtures __fixtures__ __snapshots__ snapshots e2e cypress androidtest integrationtest "
    "integration_tests unittests unit_tests testutil testutils functional_tests "
    "test-fixtures test-resources test_suite test-suite testsuite test-utils test_utils"
)
_TEST_ENDS = ("tests", ".test", "-test", "_test")
#: Source sets, recognised by their capital: `commonTest`, `jvmTest`.
_TEST_FOLDER = re.compile(r"[a-z0-9]Tests?\Z")
#: Folders whose names only end like those of tests.
_NOT_TESTS = _words("contests protests")
_TEST_PREFIX = re.compile(r"^test[_-].+|^tests?\.\w+$")
#: Tests of shells and JavaScript are named `a.bats` and `a.test.ts`. `src/test-run.ts` is source of
#: a test framework.
_WITHOUT_TEST_PREFIX = re.compile(r"\.(?:bash|sh|[cm]?[jt]s|[jt]sx)$")
_SOURCE_DIRS = _words("lib libexec src")
_TEST_NAME = re.compile(
    r".+[_.-](?:test|tests|spec|specs|e2e|cy|bench|stories)\.\w+$"
    r"|.+_test_(?:utils?|helpers?|common)\.(?:cc?|cpp|hh?|hpp|go)$"
    r"|^conftest\.py$|.+\.(?:bats|snap|t)$|.+_(?:test|spec)\.exs$"
)
#: Case matters here, so that `latest.py` and `Contest.java` are not tests.
_TEST_CAMEL = re.compile(
    r"^(?:Test[A-Z]\w*|\w*(?:Tests?|TestCase|Specs?|[a-z0-9]IT))\."
    r"(?:java|kt|kts|scala|groovy|cs|fs|swift|php|cpp|cc|cxx|h|hpp|m|mm|js|ts|tsx|hs|dart|pas)$"
)
_DOCS_DIRS = _words("docs documentation manual javadoc apidoc wiki")
#: Folders that may also hold source: Go packages, code that writes manual pages.
_MAYBE_DOCS_DIRS = _words("doc man")
_DOCS_NAME = re.compile(
    r"^(?:readme|license|licence|copying|changelog|changes|history|news|authors|contributing"
    r"|contributors|code_of_conduct|security|notice|maintainers)(?:[._-][\w.-]*)?$"
)
#: Formats of documents besides those of prose; `history.js` is source.
_DOCS_FORMATS = _words("text html xml")
_CONF_DIRS = _words(".github .gitlab .circleci .vscode .idea .devcontainer .husky .cargo")
_CONF_NAME = re.compile(
    r"^\.|.+\.(?:gemspec|podspec)$|^(?:build|workspace|module)\.bazel$|^flake\.nix$"
    r"|.+\.(?:config|conf)\.(?:js|ts|mjs|cjs|mts)$"
    r"|^(?:setup\.py|build\.gradle(?:\.kts)?|settings\.gradle(?:\.kts)?|gemfile|rakefile|podfile"
    r"|package\.swift|build\.sbt|build\.zig|mix\.exs|project\.clj|gulpfile\.\w+|gruntfile\.\w+)$"
)

_LOCK_FILES = _words(
    "package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb deno.lock "
    "cargo.lock poetry.lock uv.lock pdm.lock pipfile.lock pixi.lock composer.lock gemfile.lock "
    "mix.lock go.sum go.work.sum flake.lock pubspec.lock podfile.lock packages.lock.json "
    "gradle.lockfile package.resolved cartfile.resolved .terraform.lock.hcl conan.lock "
    "paket.lock stack.yaml.lock cabal.project.freeze rebar.lock chart.lock requirements.lock "
    "buf.lock manifest.toml.lock"
)
_GENERATED_DIRS = _words("generated __generated__ .generated auto-generated")
_GENERATED_NAME = re.compile(
    r".+(?:\.pb\.(?:go|cc|h|c|swift|dart)|\.pb\.gw\.go|_grpc\.pb\.\w+|_pb2(?:_grpc)?\.pyi?"
    r"|_pb\.(?:js|ts|d\.ts|rb)|_generated\.(?:go|rs|ts|js|h|cpp)"
    r"|\.(?:g|freezed|gr)\.dart|\.(?:designer|g|g\.i)\.cs|\.generated\.\w+|(?<!^buf)\.gen\.(?!py$)\w+"
    r"|[.-]min\.(?:js|css|mjs)|\.bundle\.js|\.(?:js|css|mjs)\.map)$"
    r"|^zz_generated.+|^(?:parser|lexer)\.tab\.[ch]$"
)
_MARKER = re.compile(
    r"^\s*(?://|#|/\*|\*|--|;|<!--|%|\"\"\"|'''|\(\*|\{-|\"|!|@REM).*?(?:"
    r"code generated .*do not (?:edit|modify)"
    r"|@generated\b(?!\s+from\s+\w+\s+by hand)"
    r"|<auto-?generated"
    r"|generated by .*do not (?:edit|modify|change)"
    r"|do not (?:edit|modify)\b.*\b(?:auto-?)?(?:matically )?generated"
    r"|(?:auto-?|automatically |machine[- ])generated\b.*\bdo not (?:edit|modify)"
    r"|(?:file|code|source) (?:is|was|has been) (?:auto-?|automatically |machine[- ])generated"
    r"|generated by the protocol buffer compiler|autogenerated by thrift"
    r"|this file is generated\b)",
    re.IGNORECASE,
)

#: Marks that generators of API documentation leave in the head of every page.
_API_PAGE = re.compile(
    r"""<meta\b(?=[^<>]*\bname=["']?generator\b)[^<>]*\bcontent=["']?
        (?:javadoc|dokka|doxygen|typedoc|jsdoc|sphinx|docutils|rustdoc|ex_?doc|yard|rdoc|phpdoc
          |scaladoc|jazzy|docfx|pdoc|haddock|mkdocs|docusaurus|gitbook)
    |<!--\ generated\ by\ (?:javadoc|doxygen|typedoc|jsdoc|jazzy|scaladoc|rdoc)\b
    |["']dokka-dark-mode["']|["']tsd-theme["']|_static/documentation_options\.js
    |<title>jsdoc:|documentation\ by\ yard\b""",
    re.IGNORECASE | re.VERBOSE,
)


def category(path: str, head: str = "", *, language: Language | None = None) -> Category:
    """Return what a file is for: vendored, generated, test, docs, configuration, else source.

    The first category that applies counts. A template counts as the file that it makes. `head` is
    the start of the content: it may hold a generated-marker, and decides between languages of one
    extension if `language` is not given.
    """
    path = _made(path)
    by_path = _category_by_path(path)
    if by_path is Category.VENDORED:
        return by_path
    if is_marked_generated(head) or _is_api_page(path.rsplit("/", 1)[-1].lower(), head):
        return Category.GENERATED
    if by_path is not None:
        return by_path
    by_language = (language or detect(path, head.encode("utf-8", "replace"))).category
    is_docs = by_language is not Category.SOURCE and _may_hold_docs(path)
    return Category.DOCS if is_docs else by_language


def _category_by_path(path: str) -> Category | None:
    """Return the category that folders and name decide; None if the content decides."""
    *folders, name = path.lower().split("/")
    dirs = frozenset(folders)
    if _is_vendored(folders) or name in _VENDORED_NAMES:
        return Category.VENDORED
    if dirs & _GENERATED_DIRS or is_lock_file(path) or _GENERATED_NAME.match(name):
        return Category.GENERATED
    if _is_test(path, dirs, name):
        return Category.TEST
    if dirs & _DOCS_DIRS or _is_docs_name(name):
        return Category.DOCS
    if dirs & _CONF_DIRS or _CONF_NAME.match(name):
        return Category.CONFIGURATION
    return None


def _is_vendored(folders: list[str]) -> bool:
    """Return whether a folder is vendored, unless it is inside a test folder: `tests/vendor`."""
    if folders[:1] == ["deps"]:
        return True
    is_package = False
    for folder in folders:
        if folder in _VENDORED_DIRS and not (is_package and folder in _PACKAGES):
            return True
        if folder in _TEST_DIRS:
            return False
        is_package = is_package or folder in _PACKAGE_ROOTS
    return False


def _is_docs_name(name: str) -> bool:
    if not _DOCS_NAME.match(name):
        return False
    found = _by_name(name)
    is_prose = found is None or found.category is Category.DOCS or found.name in _DOCS_FORMATS
    return is_prose or name.startswith("readme")


def _may_hold_docs(path: str) -> bool:
    return not _MAYBE_DOCS_DIRS.isdisjoint(path.lower().split("/")[:-1])


def traits(path: str) -> str:
    """Return everything that `detect`, `category`, `is_generated` and `family_of` read in a path.

    Files with equal contents and equal traits have the same language and category, wherever they
    are. Traits are part of the cache key of a parse, which depends on nothing else of the path.
    """
    made = _made(path)
    name = made.lower().rsplit("/", 1)[-1]
    by_name = _by_name(made.rsplit("/", 1)[-1])
    return " ".join(
        (
            by_name.name if by_name else "-",
            name.rpartition(".")[2] if "." in name else "-",
            _category_by_path(made) or "-",
            "docs" if _may_hold_docs(path) else "-",
            "lock" if is_lock_file(path) else "-",
            "generated" if is_generated(path) else "-",
            infrastructure.family_of(path) or "-",
        )
    )


def is_generated(path: str, head: str = "") -> bool:
    """Return whether a program wrote the file, by its name or by a mark in its first lines."""
    name = path.rsplit("/", 1)[-1].lower()
    by_name = bool(_GENERATED_NAME.match(name)) or is_lock_file(path)
    return by_name or is_marked_generated(head) or _is_api_page(name, head)


def is_lock_file(path: str) -> bool:
    """Return whether a package manager wrote the file: `package-lock.json`, `go.sum`."""
    return path.rsplit("/", 1)[-1].lower() in _LOCK_FILES


def is_marked_generated(head: str) -> bool:
    """Return whether a comment in the first lines is a generated-marker: `Code generated by x.`"""
    if "generated" not in head.lower():  # a word of every marker
        return False
    lines = head.split("\n", MARKER_LINES)[:MARKER_LINES]
    return any(_MARKER.match(line[:_MARKER_COLUMNS]) for line in lines)


def _is_api_page(name: str, head: str) -> bool:
    return name.endswith((".html", ".htm")) and bool(_API_PAGE.search(head))


def names() -> Iterable[str]:
    """Return all canonical names, in table order."""
    return BY_NAME.keys()


def _is_test(path: str, dirs: frozenset[str], name: str) -> bool:
    if dirs & _TEST_DIRS or _TEST_NAME.match(name):
        return True
    is_source = dirs & _SOURCE_DIRS and _WITHOUT_TEST_PREFIX.search(name)
    if _TEST_PREFIX.match(name) and not is_source:
        return True
    if any(folder.endswith(_TEST_ENDS) and folder not in _NOT_TESTS for folder in dirs):
        return True
    *folders, written = path.split("/")
    return bool(_TEST_CAMEL.match(written)) or any(map(_TEST_FOLDER.search, folders))
