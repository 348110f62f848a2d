"""Define each language in one row, for workers and gateway.

A language has one canonical name, in lower case, for filters, stored chunks and query files; other
names are aliases. `languages` decides which row a path belongs to.

A row is enough to have files of a language recognised and cut into chunks. How symbols, exports,
imports and uses of names are found is described in `workers/parse/language_rules.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from codelode.model import Category


@dataclass(frozen=True, slots=True)
class Scope:
    """The rules by which a file sees names without an import, and by which it uses them.

    Languages that see one another's names share one scope.
    """

    name: str
    is_folder: bool = False  # files of one folder see one another
    #: Files at the same relative path below any of these source roots see one another.
    source_roots: tuple[str, ...] = ()
    has_implicit_receiver: bool = False  # `load()` may call a member: `this.load()`
    has_function_values: bool = False  # a constant may hold a function or a class


@dataclass(frozen=True, slots=True)
class Language:
    """A language, and how its files are recognised.

    `category` is that of its files unless their path says otherwise.
    """

    name: str
    scope: Scope
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
    scope: Scope | None = None,
) -> Language:
    """Return a row. Lists are separated by spaces; `comments` is `"// /* */"`, `"#"`, …

    The grammar has the name of the language by default; None means that there is none.
    """
    tokens = comments.split()
    return Language(
        name=name,
        scope=scope or Scope(name),
        extensions=tuple(extensions.split()),
        filenames=tuple(filenames.split()),
        aliases=tuple(aliases.split()),
        interpreters=tuple(interpreters.split()),
        grammar=name if grammar == "" else grammar,
        line_comment=tokens[0] if len(tokens) % 2 else "",
        block_comment=(tokens[-2], tokens[-1]) if len(tokens) > 1 else None,
        category=category,
    )


_ECMASCRIPT = Scope("ecmascript", has_function_values=True)
_JVM = Scope(
    "jvm",
    is_folder=True,
    source_roots=("java", "kotlin", "scala"),
    has_implicit_receiver=True,
)
_C = Scope("c", has_implicit_receiver=True)

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
        scope=_ECMASCRIPT,
    ),
    _row(
        "typescript",
        ".ts .mts .cts",
        "// /* */",
        aliases="ts",
        interpreters="deno ts-node tsx",
        scope=_ECMASCRIPT,
    ),
    _row("tsx", ".tsx", "// /* */", aliases="typescriptreact", scope=_ECMASCRIPT),
    _row("go", ".go", "// /* */", aliases="golang", scope=Scope("go", is_folder=True)),
    _row("rust", ".rs", "// /* */", aliases="rs", interpreters="rust-script"),
    _row("java", ".java .jav", "// /* */", scope=_JVM),
    _row("c", ".c .h .idc", "// /* */", interpreters="tcc", scope=_C),
    _row(
        "cpp",
        ".cpp .cc .cxx .c++ .C .hpp .hh .hxx .h++ .H .ipp .tpp .txx .inl .ixx .cppm",
        "// /* */",
        aliases="c++ cplusplus cxx",
        scope=_C,
    ),
    _row(
        "csharp",
        ".cs .csx .cake",
        "// /* */",
        aliases="c# cs dotnet",
        interpreters="dotnet-script",
        scope=Scope("csharp", is_folder=True, has_implicit_receiver=True),
    ),
    _row(
        "objc", ".m .mm", "// /* */", aliases="objective-c objectivec obj-c objective-c++", scope=_C
    ),
    _row(
        "ruby",
        ".rb .rake .gemspec .ru .jbuilder .podspec .rabl",
        "# =begin =end",
        aliases="rb",
        filenames="rakefile gemfile guardfile vagrantfile podfile fastfile "
        "appfile brewfile capfile dangerfile",
        interpreters="ruby jruby rake macruby",
        scope=Scope("ruby", has_implicit_receiver=True),
    ),
    _row(
        "php",
        ".php .phtml .php3 .php4 .php5 .php7 .php8 .phps .blade.php",
        "// /* */",
        interpreters="php",
        scope=Scope("php", is_folder=True, source_roots=("src", "tests", "test", "lib")),
    ),
    _row(
        "swift",
        ".swift",
        "// /* */",
        interpreters="swift",
        scope=Scope("swift", has_implicit_receiver=True),
    ),
    _row("kotlin", ".kt .kts .ktm", "// /* */", aliases="kt", interpreters="kotlin", scope=_JVM),
    _row("scala", ".scala .sc .sbt", "// /* */", interpreters="scala amm", scope=_JVM),
    _row(
        "groovy",
        ".groovy .gradle .gvy",
        "// /* */",
        aliases="gradle",
        filenames="jenkinsfile",
        interpreters="groovy",
        scope=_JVM,
    ),
    _row(
        "dart",
        ".dart",
        "// /* */",
        interpreters="dart",
        scope=Scope("dart", has_implicit_receiver=True),
    ),
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
    _row(
        "perl",
        ".pl .pm .t .psgi",
        "#",
        filenames="cpanfile",
        interpreters="perl",
    ),
    _row(
        "lua",
        ".lua .rockspec",
        "-- --[[ ]]",
        interpreters="lua luajit",
    ),
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
    _row(
        "haskell",
        ".hs .hsc .lhs",
        "-- {- -}",
        aliases="hs",
        interpreters="runhaskell runghc",
    ),
    _row(
        "elixir",
        ".ex .exs",
        "#",
        aliases="ex",
        filenames="mix.lock",
        interpreters="elixir",
    ),
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
    _row("cuda", ".cu .cuh", "// /* */", scope=_C),
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
    _row("vue", ".vue", "<!-- -->", scope=_ECMASCRIPT),
    _row("svelte", ".svelte", "<!-- -->", scope=_ECMASCRIPT),
    _row("astro", ".astro", "<!-- -->", scope=_ECMASCRIPT),
    _row(
        "erb", ".erb .ejs", "<!-- -->", aliases="ejs embeddedtemplate", grammar="embeddedtemplate"
    ),
    _row("heex", ".heex .leex", "<!-- -->"),
    _row("gotmpl", ".tpl .gotmpl", "{{/* */}}", aliases="go-template", grammar=None),
    _row("twig", ".twig", "{# #}"),
    _row(
        "template",
        ".eex .ftl .handlebars .hbs .j2 .jinja .jinja2 .liquid .mustache .njk .stub .tmpl .tt .vm",
        grammar=None,
    ),
    _row("css", ".css .pcss .postcss", "/* */"),
    _row("scss", ".scss", "// /* */"),
    _row("less", ".less", "// /* */", grammar=None),
    _row("sass", ".sass", "// /* */", grammar=None),
    _row("dtd", ".dtd .mod .ent", "<!-- -->"),
    # Infrastructure and builds
    _row(
        "hcl",
        ".tf .hcl .tfvars .nomad",
        "# /* */",
        aliases="terraform tf opentofu",
        scope=Scope("hcl", is_folder=True),
    ),
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
        filenames=".clang-format .clang-tidy kustomization",
        category=_CONF,
    ),
    _row(
        "json",
        ".json .jsonc .json5 .webmanifest .geojson .jsonl",
        "//",
        aliases="jsonc json5",
        filenames=".babelrc .eslintrc .prettierrc composer.lock pipfile.lock flake.lock",
        category=_CONF,
    ),
    _row("notebook", ".ipynb", aliases="ipynb jupyter", grammar="json"),
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
    # Prose: cut at headings and blank lines, without a grammar
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
    # Its grammar crashes on 300 nested brackets.
    _row("typst", ".typ", "// /* */", grammar=None, category=_DOCS),
    TEXT,
)
