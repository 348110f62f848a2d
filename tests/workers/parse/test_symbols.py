"""Symbols by language. Tables list `kind qualified.name`, with `+` in front of exported ones."""

import pytest

from codelode.model import Kind
from workers.parse import parse

CASES = {
    "a.py": (
        """
        LIMIT: int = 1
        _cache = {}
        type Pair = tuple[int, int]
        class Outer(Base):
            class Inner:
                async def run(self): ...
            @property
            def name(self) -> str:
                def local(): ...
            def __init__(self): ...
            def _private(self): ...
        @decorated
        def top(a, *, b=1): ...
        """,
        "+constant LIMIT; constant _cache; +type Pair; +class Outer; +class Outer.Inner;"
        "+method Outer.Inner.run; +method Outer.name; +function Outer.name.local;"
        "+method Outer.__init__; method Outer._private; +function top",
    ),
    "a.js": (
        """
        const fs = require("fs");
        export class Foo extends Bar {
          #secret = 1;
          static make = () => new Foo();
          constructor(a) { super(a) }
          get size() { return 1 }
          #hidden() {}
        }
        export default function main() { function inner() {} }
        export const arrow = async (x) => { return x };
        const plain = 3, fn = function () {};
        exports.q = (x) => x;
        Foo.prototype.bar = function () {};
        const table = { method() {}, key: function () {} };
        function late() {}
        class Listed {}
        export { late };
        module.exports = { Listed };
        """,
        "+class Foo; +method Foo.make; +method Foo.constructor; +method Foo.size;"
        "method Foo.#hidden; +function main; function main.inner; +function arrow; constant plain;"
        "function fn; +function q; function bar; constant table; method table.method;"
        "function table.key; +function late; +class Listed",
    ),
    "a.ts": (
        """
        export interface Shape<T> extends Base { area(): number; readonly name: string }
        export type Alias = string | number;
        enum Color { Red }
        export abstract class Foo<T> implements Shape<T> {
          handler = (e: Event) => {};
          constructor(private a: string) { super() }
          abstract foo(): void;
          private static bar<T>(x: T): Promise<T> { return x }
        }
        export namespace NS { export function g() {} }
        declare function over(a: string): void;
        """,
        "+interface Shape; +method Shape.area; +type Alias; enum Color; +class Foo;"
        "+method Foo.handler; +method Foo.constructor; +method Foo.foo; method Foo.bar;"
        "+module NS; +function NS.g; function over",
    ),
    "a.tsx": (
        """
        export function Button({ label }: Props) { return <b>{label}</b> }
        export const Card: FC = () => <Button label="x" />;
        """,
        "+function Button; +function Card",
    ),
    "a.go": (
        """
        package main
        type Server struct { mu sync.Mutex }
        type Runner interface { Run(x int) error }
        type (
            id = string
            Code int
        )
        const Limit = 1
        const (
            A = iota
            b
        )
        var V, w = 1, 2
        func (s *Server[T]) Start(ctx context.Context) error { f := func() {}; return nil }
        func (s Server) stop() {}
        func New[T any](x T) *Server { return nil }
        """,
        "+struct Server; +interface Runner; +method Runner.Run; type id; +type Code;"
        "+constant Limit; +constant A; constant b; +constant V; constant w;"
        "+method Server.Start; method Server.stop; +function New",
    ),
    "a.rs": (
        """
        pub struct S<T> { a: T }
        enum E { A, B(i32) }
        pub trait Tr { fn f(&self); fn g(&self) {} const C: i32; type X; }
        impl<T: Clone> Tr for S<T> where T: X { fn f(&self) {} }
        impl S<i32> { pub const fn new() -> Self { fn inner() {} } }
        pub type Al = i32;
        const K: i32 = 1;
        macro_rules! mm { () => {} }
        pub mod m { pub fn x() {} }
        mod elsewhere;
        """,
        "+struct S; enum E; +trait Tr; +method Tr.f; +method Tr.g; +constant Tr.C; +type Tr.X;"
        "method S.f; +method S.new; function S.new.inner; +type Al; constant K; +macro mm;"
        "+module m; +function m.x",
    ),
    "A.java": (
        """
        package a.b;
        public class Foo<T> extends B implements C {
          private int a;
          public static final int K = 1;
          public Foo() {}
          @Override public <X> void m(int a) throws E {}
          void local() {}
          public interface In { void q(); int CONST = 2; }
          enum En { A, B; void z() {} }
          record R(int a) {}
          @interface An { String v(); }
        }
        """,
        "+class Foo; +constant Foo.K; +method Foo.Foo; +method Foo.m; method Foo.local;"
        "+interface Foo.In; +method Foo.In.q; +constant Foo.In.CONST; enum Foo.En;"
        "method Foo.En.z; class Foo.R; interface Foo.An; method Foo.An.v",
    ),
    "a.c": (
        """
        #include <stdio.h>
        #define A(x) x
        #define B 2
        #define GUARD
        struct s { int a; };
        struct forward;
        typedef struct s2 { int b; } s2_t;
        enum e { X };
        typedef int (*callback)(int);
        static int f(int a) { return a; }
        char *prototype(void);
        char **h(void) { return 0; }
        int arr[3] = {1};
        TEST_IMPL(by_macro) { return 1; }
        #ifdef A
        TEST_IMPL(sometimes) { FOREACH(item) { f(item); } }
        #endif
        """,
        "+macro A; +macro B; +struct s; +type s2_t; +struct s2; +enum e; +type callback;"
        "function f; +function h; +constant arr; +function by_macro; +function sometimes",
    ),
    "a.cpp": (
        """
        namespace a::b {
        template <typename T> class Foo : public Bar {
         public:
          Foo();
          ~Foo();
          void m() const {}
          bool operator==(const Foo&) const;
          template <class U> void t(U u) {}
          int field;
        };
        struct P { int a; };
        enum class E { A };
        using V = std::vector<int>;
        template <typename T> void Foo<T>::late(int a) {}
        Foo::~Foo() {}
        int& ref() { return x; }
        class Forward;
        const int kMax = 3;
        TEST(Suite, Case) { ref(); }
        TEST_F(Fixture, Other) { ref(); }
        }
        """,
        "+class a.b.Foo; +method a.b.Foo.Foo; +method a.b.Foo.~Foo; +method a.b.Foo.m;"
        "+method a.b.Foo.operator==; +method a.b.Foo.t; +struct a.b.P; +enum a.b.E; +type a.b.V;"
        "+method a.b.Foo.late; +method a.b.Foo.~Foo; +function a.b.ref; +constant a.b.kMax;"
        "+function a.b.Case; +function a.b.Other",
    ),
    "a.cs": (
        """
        namespace N.M {
          public class Foo<T> : Bar, IB where T : new() {
            private int a;
            public const int K = 1;
            public string P { get; set; }
            public Foo(int a) : base(a) {}
            internal async Task<int> M<T>(int a) => 1;
            public interface II { void Q(); }
            enum En { A }
            struct St {}
            public record R(int A);
            void L() { int Local() => 1; }
          }
        }
        """,
        "+class Foo; +constant Foo.K; +method Foo.P; +method Foo.Foo; method Foo.M;"
        "+interface Foo.II; +method Foo.II.Q; enum Foo.En; struct Foo.St; +class Foo.R;"
        "method Foo.L; function Foo.L.Local",
    ),
    "a.rb": (
        """
        module M
          class Foo < Bar
            K = 1
            def initialize(a); end
            def self.create(x) = new(x)
            class << self
              def z; end
            end
            def _q?; end
            attr_reader :host, :port
            private attr_writer :_secret
            mattr_accessor :logger, default: nil
            class_attribute :layout
            define_method(:run) { |x| x }
            alias_method :go, :run
            peer.attr_reader :none
          end
          class A::B; end
        end
        def top; end
        """,
        "+module M; +class M.Foo; +constant M.Foo.K; +method M.Foo.initialize;"
        "+method M.Foo.create; +method M.Foo.z; method M.Foo._q?; +method M.Foo.host;"
        "+method M.Foo.port; method M.Foo._secret; +method M.Foo.logger; +method M.Foo.layout;"
        "+method M.Foo.run; +method M.Foo.go; +class M.A.B; +function top",
    ),
    "a.php": (
        """
        <?php
        namespace A\\B;
        final class Foo extends Bar implements Baz {
          const K = 1;
          public function __construct(private int $a) {}
          public static function m(int $a): string { return ''; }
          abstract protected function ab();
        }
        interface I { public function q(); }
        trait T { function t() {} }
        enum E: string { case A = 'a'; }
        function f($x) {}
        """,
        "+class Foo; +constant Foo.K; +method Foo.__construct; +method Foo.m; method Foo.ab;"
        "+interface I; +method I.q; +trait T; +method T.t; +enum E; +function f",
    ),
    "a.kt": (
        """
        package a.b
        data class Foo<T>(val a: Int) : Bar(), Baz {
          companion object { const val K = 1 }
          class Holder {
            companion object Key { fun k() {} }
          }
          override suspend fun m(x: Int): String { return "" }
          inner class In
        }
        sealed interface I { fun q(): Int }
        object Obj { fun z() {} }
        enum class E { A, B }
        fun String.ext(a: Int) = 1
        fun <T> Foo<T>.gen() {}
        typealias Al = Int
        private fun hidden() {}
        """,
        "+class Foo; +constant Foo.K; +class Foo.Holder; +class Foo.Holder.Key;"
        "+method Foo.Holder.Key.k; +method Foo.m; +class Foo.In; +interface I; +method I.q;"
        "+class Obj; +method Obj.z; +enum E; +method String.ext; +method Foo.gen; +type Al;"
        "function hidden",
    ),
    "a.swift": (
        """
        public class Foo<T>: Bar, P {
          static let k = 2
          init(a: Int) {}
          public func m(_ x: Int) async throws -> String { let local = 1; return "" }
          subscript(i: Int) -> Int { 1 }
          private func hidden() {}
        }
        struct S { func s() {} }
        enum E { case a; func e() {} }
        protocol P { func q(); associatedtype X }
        extension Foo: Q where T: X { func ext() {} }
        func top() {}
        typealias Al = Int
        actor Ac {}
        """,
        "+class Foo; +constant Foo.k; +method Foo.init; +method Foo.m; +method Foo.subscript;"
        "method Foo.hidden; +struct S; +method S.s; +enum E; +method E.e; +interface P;"
        "+method P.q; +type P.X; +method Foo.ext; +function top; +type Al; +class Ac",
    ),
    "a.scala": (
        """
        package a.b
        case class Foo[T](a: Int) extends Bar with Baz {
          def m(x: Int)(implicit y: Y): String = ""
          val v = 1
          private lazy val w: Int = 2
          type T2 = Int
          def abs: Int
        }
        object Obj { def z = { val local = 1; local } }
        trait Tr[F[_]] { def t: Int }
        enum En { case A }
        given ord: Ord[Int] = ???
        def top = 1
        """,
        "+class Foo; +method Foo.m; +constant Foo.v; constant Foo.w; +type Foo.T2;"
        "+method Foo.abs; +class Obj; +method Obj.z; +trait Tr; +method Tr.t; +enum En;"
        "+constant ord; +function top",
    ),
    "a.sh": (
        """
        FOO=1
        function f { local x=1; }
        g() { echo; }
        readonly X=1
        """,
        "+constant FOO; +function f; +function g; +constant X",
    ),
    "a.lua": (
        """
        local x = require("a.b")
        local M = {}
        function M.f(a) local inner = 1 end
        function M:g(a) end
        local function h() end
        M.k = function(a) end
        local q = function() end
        function top() end
        return M
        """,
        "constant M; +method M.f; +method M.g; function h; +method M.k; function q; +function top",
    ),
    "a.hs": (
        """
        module A.B (f) where
        f :: Int -> Int
        f 0 = 1
        f x = y where y = x
        data D a = D1 Int | D2 { fld :: a } deriving Show
        newtype N = N Int
        type Al = Int
        class Cl a where
          m :: a -> Int
          m _ = 1
        instance Cl Int where
          m x = x
        a <+> b = a
        """,
        "+function f; +type D; +type N; +type Al; +trait Cl; +method Cl.m; +method Cl.m;"
        "+function <+>",
    ),
    "a.ex": (
        """
        defmodule A.B do
          use GenServer
          def f(x) when x > 0, do: x
          def f(_), do: 1
          defp priv(x) do
            x
          end
          defmacro mac(x) do
          end
          def noargs do
          end
          @callback cb(term) :: term
          @type t :: term
          defmodule In do
          end
        end
        defprotocol P do
          def q(x)
        end
        """,
        "+module A.B; +function A.B.f; function A.B.priv; +macro A.B.mac; +function A.B.noargs;"
        "+function A.B.cb; +type A.B.t; +module A.B.In; +module P; +function P.q",
    ),
    "a.zig": (
        """
        const std = @import("std");
        pub const Foo = struct {
            a: u32,
            pub fn init(a: u32) Foo { return .{ .a = a }; }
            const K = 1;
        };
        const E = enum { a, b };
        pub fn main() !void { const local = 1; }
        test "it works" {}
        """,
        "+struct Foo; +method Foo.init; constant Foo.K; enum E; +function main;function it works",
    ),
}


def dedent(text):
    lines = text.strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines).rstrip() + "\n"


def symbols(text, path):
    return parse(dedent(text).encode(), path=path).symbols


def row(symbol):
    return f"{'+' if symbol.is_exported else ''}{symbol.kind} {symbol.qualified_name}"


@pytest.mark.parametrize("path", CASES)
def test_the_symbols_of_a_file_are_found(path):
    text, expected = CASES[path]
    assert [row(symbol) for symbol in symbols(text, path)] == [
        item.strip() for item in expected.split(";")
    ]


SIGNATURES = [
    ("a.py", "async def f(a, *,\n    b=1) -> str:\n    pass", "async def f(a, *, b=1) -> str"),
    ("a.py", "@d(1)\nclass A(B, metaclass=C):\n    pass", "class A(B, metaclass=C)"),
    ("a.js", "export const f = async (x) => {\n}", "export const f = async (x)"),
    ("a.go", "type Server struct {\n\tA int\n}", "type Server struct"),
    ("a.go", "func (s *S) F(a int) (err error) {\n}", "func (s *S) F(a int) (err error)"),
    ("a.rs", "#[inline]\npub fn f(x: T)\nwhere T: X {\n 1 }", "pub fn f(x: T) where T: X"),
    ("A.java", "class A {\n  @Override @X(a = 1)\n  public void f() {}\n}", "public void f()"),
    ("a.kt", "fun f(x: Int = g {\n 1 }): Int {\n return 1 }", "fun f(x: Int = g { 1 }): Int"),
    ("a.ex", "def f(x) do\n x\nend", "def f(x)"),
    ("a.hs", "f :: Int -> Int\nf x = x", "f :: Int -> Int"),
    ("a.c", "static int\nf(int a)\n{\n  return a;\n}", "static int f(int a)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "text", "expected"), SIGNATURES, ids=[row[2] for row in SIGNATURES]
)
def test_a_signature_is_the_head_on_one_line(path, text, expected):
    assert symbols(text, path)[-1].signature == expected


def test_a_signature_has_at_most_200_characters():
    (symbol,) = symbols(f"def f({', '.join(f'argument_{i}' for i in range(60))}): pass", "a.py")
    assert len(symbol.signature) == 200
    assert symbol.signature.endswith("…")


DOCS = [
    ("a.py", 'def f():\n    r"""\n    Adds things.\n\n    More.\n    """', "Adds things."),
    ("a.py", "# not this\ndef f():\n    'One line.'", "One line."),
    ("a.py", "# not this\ndef f():\n    pass", ""),
    ("a.js", "/**\n * Adds things.\n * @param a\n */\nexport function f(a) {}", "Adds things."),
    ("a.go", "// F adds\n// things.\nfunc F() {}", "F adds"),
    ("a.go", "// License.\n\nfunc F() {}", ""),
    ("a.rs", "/// Adds things.\n#[inline]\npub fn f() {}", "Adds things."),
    ("a.java", "/** Adds things. */\n@Ann\nclass A {}", "Adds things."),
    ("a.cpp", "// Adds things.\ntemplate <class T>\nvoid f(T t) {}", "Adds things."),
    ("a.sh", "#!/bin/sh\n\n# Adds things.\nf() { :; }", "Adds things."),
    ("a.c", "int a; /* other */ int f(void) { return 1; }", ""),
]


@pytest.mark.parametrize(("path", "text", "expected"), DOCS)
def test_the_doc_is_the_first_line_of_the_documentation(path, text, expected):
    assert symbols(text, path)[0].doc == expected


def test_lines_are_those_of_the_definition():
    first, second = symbols("# a\n\n@d\ndef f():\n    pass\n\n\nclass A:\n    x = 1\n", "a.py")
    assert (first.start_line, first.end_line) == (4, 5)
    assert (second.start_line, second.end_line) == (8, 9)


def test_a_header_names_all_parents():
    method = "    def m(self):\n" + "        do_something(with_some_argument)\n" * 150
    pieces = parse(f"class A:\n  class B(C):\n{method}".encode(), path="a.py").pieces
    assert pieces[-1].header == "class A › class B(C) › def m(self)"
    assert pieces[-1].symbol == "A.B.m"
    assert pieces[-1].kind is Kind.METHOD


def test_parents_in_a_header_have_at_most_120_characters():
    text = f"class {'A' * 190}:\n" + "    x = some_call(with_argument)\n" * 200
    assert len(parse(text.encode(), path="a.py").pieces[-1].header) == 120


def test_impl_and_extension_are_in_headers_but_namespaces_are_not():
    body = "    call_something(with_argument);\n" * 120
    rust = parse(f"impl A for B {{\n  fn f() {{\n{body}  }}\n}}\n".encode(), path="a.rs")
    cpp = parse(f"namespace n {{\nvoid f() {{\n{body}}}\n}}\n".encode(), path="a.cpp")
    assert rust.pieces[-1].header == "impl A for B › fn f()"
    assert (cpp.pieces[-1].header, cpp.pieces[-1].symbol) == ("void f()", "n.f")


def test_nesting_without_end_is_bounded():
    text = "function a(){" * 1_000 + "}" * 1_000
    assert len(symbols(text, "a.js")) == 32


def test_a_definition_is_listed_in_the_piece_where_it_starts():
    text = "\n\n".join(f"def f{i}():\n" + "    call(with_some_argument)\n" * 20 for i in range(12))
    parsed = parse(text.encode(), path="a.py")
    listed = [name for piece in parsed.pieces for name in piece.symbols]
    assert listed == [symbol.name for symbol in parsed.symbols] == [f"f{i}" for i in range(12)]


def test_a_function_whose_name_a_macro_makes_has_the_argument_as_its_name():
    text = (
        b"VEC FUNC(New)(int n) {\n  return 0;\n}\n\nPyObject *FUNC(Box)(VEC v) {\n  return v;\n}\n"
    )
    symbols = parse(text, path="vec.c").symbols
    assert [(one.name, one.start_line) for one in symbols] == [("New", 1), ("Box", 5)]


def test_a_header_of_cpp_is_recognised_after_pages_of_comments():
    comment = "// How to define an action.\n" * 1_000
    text = f"{comment}#ifndef A_H\n#define A_H\nnamespace a {{\nclass Act {{}};\n}}\n#endif\n"

    assert parse(text.encode(), path="include/act.h").language == "cpp"
