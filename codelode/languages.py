"""The languages: one row each, and the guesses from a path that need no grammar.

`detect` says what a file is written in, `category` what it is for. Both read the path first and
the head of the content only where the path leaves a choice, and both always answer: a file that
nothing matches is `text`. A language has one canonical name, lower-case, in filters, stored chunks
and query files; everything else people call it is an alias. Conventions of paths follow
github-linguist's vendor and generated lists, reduced to those that hold across ecosystems.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from codelode.model import Category

#: Generated-markers stand in the first lines; further down they are somebody's string constant.
MARKER_LINES = 20

#: A marker further right than this is data on a long line.
_MARKER_COLUMNS = 300


@dataclass(frozen=True, slots=True)
class Language:
    """One language. `category` is what its files are for when the path says nothing else."""

    name: str
    extensions: tuple[str, ...] = ()  # with the dot; the longest that matches wins
    filenames: tuple[str, ...] = ()  # lower-case
    aliases: tuple[str, ...] = ()
    interpreters: tuple[str, ...] = ()  # programs in a `#!` line, without their version
    grammar: str | None = None  # name in tree-sitter-language-pack; None: chunked as text
    line_comment: str = ""
    block_comment: tuple[str, str] | None = None
    category: Category = Category.SOURCE


_CONF = Category.CONFIGURATION
_DOCS = Category.DOCS


def _row(
    name: str,
    extensions: str = "",
    comments: str = "",
    *,
    aliases: str = "",
    filenames: str = "",
    interpreters: str = "",
    grammar: str | None = "",
    category: Category = Category.SOURCE,
) -> Language:
    """A row of the table. Lists are separated by spaces; `comments` is `"// /* */"`, `"#"`, …"""
    tokens = comments.split()
    return Language(
        name=name,
        extensions=tuple(extensions.split()),
        filenames=tuple(filenames.split()),
        aliases=tuple(aliases.split()),
        interpreters=tuple(interpreters.split()),
        grammar=name if grammar == "" else grammar,
        line_comment=tokens[0] if len(tokens) % 2 else "",
        block_comment=(tokens[-2], tokens[-1]) if len(tokens) > 1 else None,
        category=category,
    )


TEXT = _row(
    "text",
    ".txt .text .log",
    filenames="license copying authors notice readme changelog contributors install",
    aliases="plain plaintext txt",
    grammar=None,
    category=_DOCS,
)

LANGUAGES: tuple[Language, ...] = (
    # General purpose
    _row(
        "python",
        ".py .pyi .pyw .pyx .pxd",
        "#",
        aliases="py python3 cython",
        filenames="sconstruct sconscript wscript",
        interpreters="python",
    ),
    _row(
        "javascript",
        ".js .mjs .cjs .jsx .es6",
        "// /* */",
        aliases="js jsx node ecmascript",
        filenames="jakefile",
        interpreters="node nodejs bun",
    ),
    _row("typescript", ".ts .mts .cts", "// /* */", aliases="ts", interpreters="deno ts-node tsx"),
    _row("tsx", ".tsx", "// /* */", aliases="typescriptreact"),
    _row("go", ".go", "// /* */", aliases="golang"),
    _row("rust", ".rs", "// /* */", aliases="rs", interpreters="rust-script"),
    _row("java", ".java .jav", "// /* */"),
    _row("c", ".c .h .idc", "// /* */", interpreters="tcc"),
    _row(
        "cpp",
        ".cpp .cc .cxx .c++ .C .hpp .hh .hxx .h++ .H .ipp .tpp .txx .inl .ixx .cppm",
        "// /* */",
        aliases="c++ cplusplus cxx",
    ),
    _row(
        "csharp", ".cs .csx .cake", "// /* */", aliases="c# cs dotnet", interpreters="dotnet-script"
    ),
    _row("objc", ".m .mm", "// /* */", aliases="objective-c objectivec obj-c objective-c++"),
    _row(
        "ruby",
        ".rb .rake .gemspec .ru .jbuilder .podspec .rabl",
        "# =begin =end",
        aliases="rb",
        filenames="rakefile gemfile guardfile vagrantfile podfile fastfile "
        "appfile brewfile capfile dangerfile",
        interpreters="ruby jruby rake macruby",
    ),
    _row(
        "php",
        ".php .phtml .php3 .php4 .php5 .php7 .php8 .phps .blade.php",
        "// /* */",
        interpreters="php",
    ),
    _row("swift", ".swift", "// /* */", interpreters="swift"),
    _row("kotlin", ".kt .kts .ktm", "// /* */", aliases="kt", interpreters="kotlin"),
    _row("scala", ".scala .sc .sbt", "// /* */", interpreters="scala amm"),
    _row(
        "groovy",
        ".groovy .gradle .gvy",
        "// /* */",
        aliases="gradle",
        filenames="jenkinsfile",
        interpreters="groovy",
    ),
    _row("dart", ".dart", "// /* */", interpreters="dart"),
    _row("zig", ".zig .zon", "//"),
    _row("nim", ".nim .nims .nimble", "#", interpreters="nim"),
    _row("d", ".d .di", "// /* */", aliases="dlang", interpreters="rdmd"),
    _row("odin", ".odin", "// /* */"),
    _row("hare", ".ha", "//"),
    _row("haxe", ".hx", "// /* */"),
    _row("ada", ".adb .ads", "--"),
    _row("actionscript", ".as", "// /* */", aliases="as3"),
    _row("gdscript", ".gd", "#"),
    # Scripts and shells
    _row(
        "bash",
        ".sh .bash .zsh .ksh .bats .ebuild",
        "#",
        aliases="sh shell zsh ksh shellscript",
        filenames=".bashrc .bash_profile .bash_aliases .profile .zshrc .zshenv pkgbuild "
        "gradlew mvnw",
        interpreters="sh bash zsh ksh dash ash bats",
    ),
    _row("fish", ".fish", "#", interpreters="fish"),
    _row("powershell", ".ps1 .psm1 .psd1", "# <# #>", aliases="pwsh ps", interpreters="pwsh"),
    _row("batch", ".bat .cmd", "REM", aliases="bat dosbatch", grammar=None),
    _row("perl", ".pl .pm .t .psgi", "#", filenames="cpanfile", interpreters="perl"),
    _row("lua", ".lua .rockspec", "-- --[[ ]]", interpreters="lua luajit"),
    _row("luau", ".luau", "-- --[[ ]]"),
    _row("tcl", ".tcl .tk", "#", interpreters="tclsh wish expect"),
    _row("awk", ".awk", "#", interpreters="awk gawk mawk", grammar=None),
    _row("vim", ".vim .vimrc", '"', aliases="viml vimscript", filenames=".vimrc _vimrc"),
    _row("r", ".r .rsx", "#", aliases="rlang", filenames=".rprofile", interpreters="rscript"),
    _row("julia", ".jl", "# #= =#", aliases="jl", interpreters="julia"),
    _row("matlab", ".mlx", "% %{ %}", aliases="octave", interpreters="octave"),
    _row(
        "starlark",
        ".bzl .star .bazel",
        "#",
        aliases="bazel skylark",
        filenames="build workspace tiltfile",
    ),
    # Functional
    _row("haskell", ".hs .hsc .lhs", "-- {- -}", aliases="hs", interpreters="runhaskell runghc"),
    _row("elixir", ".ex .exs", "#", aliases="ex", filenames="mix.lock", interpreters="elixir"),
    _row(
        "erlang",
        ".erl .hrl .escript",
        "%",
        aliases="erl",
        filenames="rebar.config",
        interpreters="escript",
    ),
    _row("gleam", ".gleam", "//"),
    _row(
        "clojure",
        ".clj .cljs .cljc .edn .bb",
        ";",
        aliases="clj clojurescript",
        interpreters="bb clojure",
    ),
    _row(
        "elisp",
        ".el",
        ";",
        aliases="emacs-lisp emacslisp",
        filenames=".emacs",
        interpreters="emacs",
    ),
    _row(
        "commonlisp",
        ".lisp .lsp .cl .asd",
        "; #| |#",
        aliases="lisp common-lisp",
        interpreters="sbcl clisp",
    ),
    _row("scheme", ".scm .ss .sld", "; #| |#", interpreters="guile chibi-scheme"),
    _row("racket", ".rkt .rktl", "; #| |#", interpreters="racket"),
    _row("ocaml", ".ml .eliom", "(* *)", aliases="ml", interpreters="ocaml"),
    _row("ocaml_interface", ".mli", "(* *)"),
    _row("fsharp", ".fs .fsx", "// (* *)", aliases="f# fs"),
    _row("elm", ".elm", "-- {- -}"),
    _row("purescript", ".purs", "-- {- -}"),
    _row("agda", ".agda", "-- {- -}"),
    # Scientific, hardware, older
    _row("fortran", ".f90 .f95 .f03 .f08 .f .for .f77 .ftn", "!", aliases="f90"),
    _row(
        "pascal",
        ".pas .dpr .lpr .dpk",
        "// { }",
        aliases="delphi objectpascal",
        interpreters="instantfpc",
    ),
    _row("cobol", ".cob .cbl .cpy .cobol", "*"),
    _row("asm", ".asm .s .nasm", ";", aliases="assembly nasm"),
    _row("cuda", ".cu .cuh", "// /* */"),
    _row("glsl", ".glsl .vert .frag .geom .comp", "// /* */"),
    _row("hlsl", ".hlsl .fx", "// /* */"),
    _row("wgsl", ".wgsl", "// /* */"),
    _row("verilog", ".v .sv .svh .vh", "// /* */", aliases="systemverilog"),
    _row("vhdl", ".vhd .vhdl", "--"),
    _row("solidity", ".sol", "// /* */", aliases="sol"),
    _row("cairo", ".cairo", "//"),
    _row("apex", ".apex .trigger", "// /* */"),
    # Queries, schemas, markup
    _row(
        "sql", ".sql .ddl .dml .pgsql .psql", "-- /* */", aliases="postgres postgresql mysql plsql"
    ),
    _row("graphql", ".graphql .gql .graphqls", "#", aliases="gql"),
    _row("protobuf", ".proto", "// /* */", aliases="proto proto3", grammar="proto"),
    _row("thrift", ".thrift", "// /* */"),
    _row("capnp", ".capnp", "#", aliases="capnproto"),
    _row("prisma", ".prisma", "//"),
    _row("html", ".html .htm .xhtml", "<!-- -->", aliases="htm"),
    _row("vue", ".vue", "<!-- -->"),
    _row("svelte", ".svelte", "<!-- -->"),
    _row("astro", ".astro", "<!-- -->"),
    _row(
        "erb", ".erb .ejs", "<!-- -->", aliases="ejs embeddedtemplate", grammar="embeddedtemplate"
    ),
    _row("heex", ".heex .leex", "<!-- -->"),
    _row("twig", ".twig", "{# #}"),
    _row("css", ".css .pcss .postcss", "/* */"),
    _row("scss", ".scss", "// /* */"),
    _row("less", ".less", "// /* */", grammar=None),
    _row("sass", ".sass", "// /* */", grammar=None),
    _row("dtd", ".dtd .mod .ent", "<!-- -->"),
    # Infrastructure and builds
    _row("hcl", ".tf .hcl .tfvars .nomad", "# /* */", aliases="terraform tf opentofu"),
    _row("nix", ".nix", "# /* */", interpreters="nix-shell"),
    _row("bicep", ".bicep", "// /* */"),
    _row("puppet", ".pp", "#"),
    _row("rego", ".rego", "#", aliases="opa"),
    _row("jsonnet", ".jsonnet .libsonnet", "// /* */"),
    _row("smithy", ".smithy", "//"),
    _row(
        "dockerfile",
        ".dockerfile .containerfile",
        "#",
        aliases="docker",
        filenames="dockerfile containerfile",
        category=_CONF,
    ),
    _row(
        "make",
        ".mk .mak",
        "#",
        aliases="makefile",
        filenames="makefile gnumakefile bsdmakefile kbuild",
        interpreters="make",
        category=_CONF,
    ),
    _row("cmake", ".cmake", "#", filenames="cmakelists.txt", category=_CONF),
    _row("meson", "", "#", filenames="meson.build meson_options.txt meson.options", category=_CONF),
    _row("ninja", ".ninja", "#", category=_CONF),
    _row("gn", ".gn .gni", "#", category=_CONF),
    _row("gomod", "", "//", filenames="go.mod go.work", category=_CONF),
    _row(
        "requirements",
        "",
        "#",
        aliases="pip",
        filenames="requirements.txt requirements-dev.txt constraints.txt",
        category=_CONF,
    ),
    _row("kconfig", "", "#", filenames="kconfig", category=_CONF),
    # Data and settings
    _row(
        "yaml",
        ".yaml .yml",
        "#",
        aliases="yml",
        filenames=".clang-format .clang-tidy",
        category=_CONF,
    ),
    _row(
        "json",
        ".json .jsonc .json5 .webmanifest .geojson .jsonl .ipynb",
        "//",
        aliases="jsonc json5",
        filenames=".babelrc .eslintrc .prettierrc composer.lock pipfile.lock flake.lock",
        category=_CONF,
    ),
    _row(
        "toml",
        ".toml",
        "#",
        filenames="pipfile cargo.lock poetry.lock uv.lock pdm.lock",
        category=_CONF,
    ),
    _row(
        "xml",
        ".xml .xsd .xsl .xslt .svg .plist .csproj .fsproj .vbproj .vcxproj "
        ".props .targets .nuspec .resx .xaml .wsdl .storyboard .xib .rss",
        "<!-- -->",
        aliases="svg xsd xslt",
        category=_CONF,
    ),
    _row(
        "ini",
        ".ini .cfg .conf .editorconfig .service",
        ";",
        aliases="cfg conf",
        filenames=".editorconfig .gitconfig .npmrc .flake8 .pylintrc .coveragerc",
        category=_CONF,
    ),
    _row("properties", ".properties .env", "#", aliases="dotenv", filenames=".env", category=_CONF),
    _row("kdl", ".kdl", "// /* */", category=_CONF),
    _row("ron", ".ron", "// /* */", category=_CONF),
    _row(
        "gitignore",
        ".gitignore .dockerignore",
        "#",
        filenames=".gitignore .dockerignore .npmignore .eslintignore .prettierignore",
        category=_CONF,
    ),
    _row("gitattributes", "", "#", filenames=".gitattributes", category=_CONF),
    _row("csv", ".csv", "", category=_CONF),
    _row("tsv", ".tsv", "", category=_CONF),
    # Prose: cut at headings and blank lines, so that no grammar is asked
    _row(
        "markdown",
        ".md .markdown .mdown .mkd .rmd .qmd",
        "<!-- -->",
        aliases="md",
        grammar=None,
        category=_DOCS,
    ),
    _row("mdx", ".mdx", "<!-- -->", grammar=None, category=_DOCS),
    _row("rst", ".rst", "..", aliases="restructuredtext", grammar=None, category=_DOCS),
    _row("asciidoc", ".adoc .asciidoc", "//", aliases="adoc", grammar=None, category=_DOCS),
    _row("org", ".org", "#", grammar=None, category=_DOCS),
    _row("latex", ".tex .sty .ltx", "%", aliases="tex", category=_DOCS),
    _row("bibtex", ".bib", "%", category=_DOCS),
    _row("typst", ".typ", "// /* */", category=_DOCS),
    TEXT,
)

BY_NAME = {language.name: language for language in LANGUAGES}
_BY_EXTENSION = {ext: language for language in LANGUAGES for ext in language.extensions}
_BY_FILENAME = {name: language for language in LANGUAGES for name in language.filenames}
_BY_ALIAS = {alias: language for language in LANGUAGES for alias in language.aliases}
_BY_INTERPRETER = {name: language for language in LANGUAGES for name in language.interpreters}

_SHEBANG = re.compile(rb"#!\s*(?:\S*/)?(?:env\s+(?:-\S+\s+|\w+=\S*\s+)*(?:\S*/)?)?([\w+-]+)")
_CPP_HEAD = re.compile(
    rb"^\s*(?:namespace\b[^;.]*\{|template\s*<|class\s+(?:\w+\s+){0,2}\w+\s*[:{;]"
    rb"|using\s+(?:namespace\b|\w+\s*=|[\w:]+;)|public:|private:|protected:)"
    rb"|\bstd::|\bconstexpr\b|\bnullptr\b|#\s*include\s*<(?:c?[a-z_]+)>|\boperator\s*[=<>+*(-]",
    re.MULTILINE,
)
_OBJC_HEAD = re.compile(
    rb"^\s*(?:@(?:interface|protocol|class|import|implementation)\b|#import\b)", re.MULTILINE
)
_MATLAB_HEAD = re.compile(rb"^\s*(?:%|function\b|classdef\b)", re.MULTILINE)
_XML_HEAD = re.compile(rb"\s*(?:\xef\xbb\xbf)?<(?:\?xml|!DOCTYPE TS)")


def detect(path: str, head: bytes = b"") -> Language:
    """The language of a file, by name, then extension, then `#!` line; `text` when none fits.

    `head`, the first kilobytes of the content, settles `.h`, `.m` and `.ts`; without it they are
    C, Objective-C and TypeScript.
    """
    name = path.rsplit("/", 1)[-1]
    found = _by_name(name) or _by_shebang(head) or TEXT
    return _settle(name.lower(), found, head)


def resolve(name_or_alias: str) -> str | None:
    """The canonical name: `terraform` → `hcl`, `C++` → `cpp`, `.py` → `python`; None: unknown."""
    asked = name_or_alias.strip().lower()
    extension = asked if asked.startswith(".") else f".{asked}"
    found = BY_NAME.get(asked) or _BY_ALIAS.get(asked) or _BY_EXTENSION.get(extension)
    return found.name if found else None


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
    """`a.blade.php` → `.blade.php`, `.php`."""
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


# What a file is for


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VENDORED_DIRS = _words(
    "vendor _vendor third_party third-party thirdparty 3rdparty 3rd_party node_modules "
    "bower_components jspm_packages godeps pods carthage site-packages .yarn extern external "
    "_vendored vendored"
)
_VENDORED_NAMES = _words("gradlew gradlew.bat mvnw mvnw.cmd")
_TEST_DIRS = _words(
    "test tests __tests__ testing testdata test-data test_data spec specs __mocks__ mocks "
    "fixtures __fixtures__ __snapshots__ snapshots e2e cypress androidtest integrationtest "
    "integration_tests unittests unit_tests testutil testutils functional_tests"
)
_TEST_NAME = re.compile(
    r"^test[_-].+|^tests?\.\w+$|.+[_.-](?:test|tests|spec|specs|e2e|cy|bench|stories)\.\w+$"
    r"|^conftest\.py$|.+\.(?:bats|snap|t)$|.+_(?:test|spec)\.exs$"
)
#: Written in capitals, so that `latest.py` and `Contest.java` are not tests.
_TEST_CAMEL = re.compile(
    r"^(?:Test[A-Z]\w*|\w*(?:Tests?|TestCase|Specs?|[a-z0-9]IT))\."
    r"(?:java|kt|kts|scala|groovy|cs|fs|swift|php|cpp|cc|cxx|h|hpp|m|mm|js|ts|tsx|hs|dart|pas)$"
)
_DOCS_DIRS = _words("docs documentation manual javadoc apidoc wiki")
#: Go packages and man-page writers are called so too; their code is source.
_MAYBE_DOCS_DIRS = _words("doc man")
_DOCS_NAME = re.compile(
    r"^(?:readme|license|licence|copying|changelog|changes|history|news|authors|contributing"
    r"|contributors|code_of_conduct|security|notice|maintainers)(?:[._-][\w.-]*)?$"
)
_CONF_DIRS = _words(".github .gitlab .circleci .vscode .idea .devcontainer .husky .cargo")
_CONF_NAME = re.compile(
    r"^\.[\w-]+(?:rc|ignore|config)(?:\.\w+)?$|.+\.(?:config|conf)\.(?:js|ts|mjs|cjs|mts)$"
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
    r"|\.(?:g|freezed|gr)\.dart|\.(?:designer|g|g\.i)\.cs|\.generated\.\w+|\.gen\.\w+"
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

#: What the writers of API documents leave in the head of every page.
_API_PAGE = re.compile(
    r"""<meta\b(?=[^>]*\bname=["']?generator\b)[^>]*\bcontent=["']?
        (?:javadoc|dokka|doxygen|typedoc|jsdoc|sphinx|docutils|rustdoc|ex_?doc|yard|rdoc|phpdoc
          |scaladoc|jazzy|docfx|pdoc|haddock|mkdocs|docusaurus|gitbook)
    |<!--\ generated\ by\ (?:javadoc|doxygen|typedoc|jsdoc|jazzy|scaladoc|rdoc)\b
    |["']dokka-dark-mode["']|["']tsd-theme["']|_static/documentation_options\.js
    |<title>jsdoc:|documentation\ by\ yard\b""",
    re.IGNORECASE | re.VERBOSE,
)


def category(path: str, head: str = "") -> Category:
    """What the file is for: vendored, generated, test, docs, configuration, else source.

    The first of these that holds. `head` is the start of the content: generated-markers stand
    there, and it tells the languages of one extension apart.
    """
    by_path = _category_by_path(path)
    if by_path is Category.VENDORED:
        return by_path
    if is_marked_generated(head) or _is_api_page(path.rsplit("/", 1)[-1].lower(), head):
        return Category.GENERATED
    if by_path is not None:
        return by_path
    by_language = detect(path, head.encode("utf-8", "replace")).category
    is_docs = by_language is not Category.SOURCE and _may_hold_docs(path)
    return Category.DOCS if is_docs else by_language


def _category_by_path(path: str) -> Category | None:
    """What folders and name alone decide; None: the content does."""
    *folders, name = path.lower().split("/")
    dirs = frozenset(folders)
    if dirs & _VENDORED_DIRS or name in _VENDORED_NAMES or folders[:1] == ["deps"]:
        return Category.VENDORED
    if dirs & _GENERATED_DIRS or is_lock_file(path) or _GENERATED_NAME.match(name):
        return Category.GENERATED
    if _is_test(path, dirs, name):
        return Category.TEST
    if dirs & _DOCS_DIRS or _DOCS_NAME.match(name):
        return Category.DOCS
    if dirs & _CONF_DIRS or _CONF_NAME.match(name):
        return Category.CONFIGURATION
    return None


def _may_hold_docs(path: str) -> bool:
    return not _MAYBE_DOCS_DIRS.isdisjoint(path.lower().split("/")[:-1])


def traits(path: str) -> str:
    """All that `detect`, `category`, `is_generated` and `is_lock_file` read of a path.

    Files with equal contents and equal traits have the same language and category, wherever they
    are: a name for everything else that could shape what is derived from a content.
    """
    name = path.lower().rsplit("/", 1)[-1]
    by_name = _by_name(path.rsplit("/", 1)[-1])
    return " ".join(
        (
            by_name.name if by_name else "-",
            name.rpartition(".")[2] if "." in name else "-",
            _category_by_path(path) or "-",
            "docs" if _may_hold_docs(path) else "-",
            "lock" if is_lock_file(path) else "-",
            "generated" if is_generated(path) else "-",
        )
    )


def is_generated(path: str, head: str = "") -> bool:
    """Whether a program wrote the file, by its name or by what it left in its first lines."""
    name = path.rsplit("/", 1)[-1].lower()
    by_name = bool(_GENERATED_NAME.match(name)) or is_lock_file(path)
    return by_name or is_marked_generated(head) or _is_api_page(name, head)


def is_lock_file(path: str) -> bool:
    """Whether a package manager wrote the file: `package-lock.json`, `Cargo.lock`, `go.sum`."""
    return path.rsplit("/", 1)[-1].lower() in _LOCK_FILES


def is_marked_generated(head: str) -> bool:
    """Whether a comment in the first lines says so: `Code generated by x. DO NOT EDIT.`"""
    lines = head.split("\n", MARKER_LINES)[:MARKER_LINES]
    return any(_MARKER.match(line[:_MARKER_COLUMNS]) for line in lines)


def _is_api_page(name: str, head: str) -> bool:
    return name.endswith((".html", ".htm")) and bool(_API_PAGE.search(head))


def names() -> Iterable[str]:
    """All canonical names, in table order."""
    return BY_NAME.keys()


def _is_test(path: str, dirs: frozenset[str], name: str) -> bool:
    if dirs & _TEST_DIRS or _TEST_NAME.match(name):
        return True
    if any(folder.endswith(("tests", ".test", "-test", "_test")) for folder in dirs):
        return True
    return bool(_TEST_CAMEL.match(path.rsplit("/", 1)[-1]))
