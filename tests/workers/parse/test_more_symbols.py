"""Symbols of the less common languages, in tables as in `test_symbols`."""

from textwrap import dedent

import pytest

from codelode.languages import BY_NAME
from workers.parse import grammars, parse

#: Languages with samples in `test_symbols`.
COMMON = {
    "python", "javascript", "typescript", "tsx", "go", "rust", "java", "c", "cpp", "csharp",
    "ruby", "php", "kotlin", "swift", "scala", "bash", "lua", "elixir", "haskell", "zig",
}  # fmt: skip

CASES = {
    "a.r": (
        r"""
        library(dplyr)
        area <- function(w, h = 2) { w * h }
        area2 = function(x) x
        LIMIT <- 3
        Stack <- R6Class("Stack", public = list(push = function(x) { 1 }),
          private = list(hid=function() 1))
        setClass("P", representation(name = "character"))
        setMethod("show", "P", function(object) {})
        setGeneric("area", function(s) standardGeneric("area"))
        source("a.R")
        print.foo <- function(x) x
        pkg::f(1)
        """,
        "+function area;+function area2;+constant LIMIT;+class Stack;+method Stack.push;"
        "+method Stack.hid;+class P;+method P.show;+function area;+method print.foo",
    ),
    "a.sol": (
        r"""
        pragma solidity ^0.8;
        import "./A.sol";
        import {X} from "y";
        contract Token is ERC20, Own {
          uint256 public constant CAP = 1; event T(address a); error E(uint x); modifier m() { _; }
          struct S { uint a; } enum K { A, B }
         constructor(uint x) {} function f(uint a) public view returns (uint) { return 1; }
          function _g() private {}
          fallback() external {} receive() external payable {} uint public total; }
        interface I { function h() external; }
        library L { function q() internal {} }
        abstract contract B {}
        function free() pure {}
        uint constant Z = 1;
        type P is uint256;
        """,
        "+class Token;+constant Token.CAP;+type Token.T;+type Token.E;+macro Token.m;"
        "+struct Token.S;+enum Token.K;+method Token.constructor;+method Token.f;"
        "method Token._g;+method Token.fallback;+method Token.receive;"
        "+constant Token.total;+interface I;+method I.h;+class L;method L.q;+class B;"
        "+function free;+constant Z;+type P",
    ),
    "a.f90": (
        r"""
        module geometry
          use iso_c_binding, only: c_int
          implicit none
          integer, parameter :: n = 3
          type :: point
            real :: x
          contains
            procedure :: norm
          end type point
          interface area
            module procedure area_sq
          end interface
        contains
          subroutine show(p)
            type(point) :: p
          end subroutine show
          function area_sq(a) result(r)
            real :: a, r
          end function
        end module
        program main
          call show()
        end program main
        """,
        "+module geometry;+constant geometry.n;+struct geometry.point;"
        "+interface geometry.area;+function geometry.show;+function geometry.area_sq;"
        "+module main",
    ),
    "a.pas": (
        r"""
        unit Foo;
        interface
        uses SysUtils, Classes;
        const Max = 3;
        type
          TPoint = record X, Y: Integer; end;
          IRun = interface procedure Run; end;
          TColor = (Red, Green);
          TFoo = class(TObject)
          private
            FX: Integer;
          public
            constructor Create(A: Integer);
            procedure Bar; virtual;
            function Baz(X: Integer): string;
            property X: Integer read FX;
          end;
        procedure Free2(A: Integer);
        implementation
        constructor TFoo.Create(A: Integer);
        begin
        end;
        procedure TFoo.Bar;
        begin
        end;
        procedure Free2(A: Integer);
        begin
        end;
        end.
        """,
        "+constant Max;+struct TPoint;+interface IRun;+method IRun.Run;+enum TColor;"
        "+class TFoo;+method TFoo.Create;+method TFoo.Bar;+method TFoo.Baz;"
        "+function Free2;+method TFoo.Create;+method TFoo.Bar;+function Free2",
    ),
    "a.sql": (
        r"""
        CREATE TABLE public.users (id INT PRIMARY KEY, name TEXT);
        CREATE OR REPLACE VIEW v AS SELECT 1;
        CREATE FUNCTION add(a int) RETURNS int AS $$ SELECT 1 $$ LANGUAGE sql;
        CREATE INDEX idx ON users (id);
        CREATE TYPE mood AS ENUM ('a');
        CREATE TRIGGER trg BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION f();
        CREATE MATERIALIZED VIEW mv AS SELECT 1;
        CREATE SCHEMA s;
        ALTER TABLE users ADD COLUMN b int;
        CREATE SEQUENCE sq;
        """,
        "+struct public.users;+struct v;+function add;+type mood;+function trg;"
        "+struct mv;+module s;+constant sq",
    ),
    "a.dart": (
        r"""
        import 'a.dart';
        abstract class Foo<T> extends Bar with M implements I {
          final int x;
          static const k = 1;
          Foo(this.x);
          Foo.named(int y) : x = y;
          factory Foo.make() => Foo(1);
          void run(int a) { }
          int get size => 1;
          set size(int v) {}
          bool operator ==(Object o) => true;
          void abs();
        }
        mixin M on Foo {}
        enum Color { red, green }
        extension Ext on String { int n() => 1; }
        typedef Cb = void Function(int);
        const top = 1;
        void main() { void inner() {} }
        int get g => 1;
        """,
        "+class Foo;+constant Foo.k;+method Foo.Foo;+method Foo.named;+method Foo.make;"
        "+method Foo.run;+method Foo.size;+method Foo.size;+method Foo.==;"
        "+method Foo.abs;+trait M;+enum Color;+class Ext;+method Ext.n;+type Cb;"
        "+constant top;+function main;+function main.inner;+function g",
    ),
    "a.pl": (
        r"""
        package Foo::Bar;
        use strict;
        use List::Util qw(max);
        require Foo;
        sub new { my ($c) = @_; return bless {}, $c; }
        sub _p { 1 }
        use constant PI => 3;
        package Two { sub a { 1 } }
        1;
        """,
        "+module Foo.Bar;+function Foo.Bar.new;function Foo.Bar._p;+constant Foo.Bar.PI;"
        "+module Foo.Bar.Two;"
        "+function Foo.Bar.Two.a",
    ),
    "a.proto": (
        r"""
        syntax = "proto3";
        package a.b;
        import "x.proto";
        message Outer { string name = 1; message Inner { int32 a = 1; }
          enum E { A = 0; } oneof q { int32 z = 3; } }
        enum Color { RED = 0; }
        service Search { rpc Find(Req) returns (stream Res);
          rpc G(Req) returns (Res) { option x = 1; } }
        extend Foo { string a = 1; }
        """,
        "+struct a.b.Outer;+struct a.b.Outer.Inner;+enum a.b.Outer.E;+type a.b.Outer.q;"
        "+enum a.b.Color;+interface a.b.Search;+method a.b.Search.Find;"
        "+method a.b.Search.G",
    ),
    "a.graphql": (
        r"""
        type User implements Node @key { id: ID! posts(first: Int): [Post] }
        interface Node { id: ID! }
        enum Role { ADMIN }
        input NewUser { name: String }
        union U = A | B
        scalar Date
        directive @key(fields: String) on OBJECT
        extend type Query { me: User }
        query Get($id: ID!) { user(id: $id) { id } }
        mutation M { a }
        fragment F on User { id }
        schema { query: Query }
        """,
        "+class User;+interface Node;+enum Role;+struct NewUser;+type U;+type Date;"
        "+macro key;+method Query.me;+function Get;+function M;+function F",
    ),
    "a.cmake": (
        r"""
        cmake_minimum_required(VERSION 3.1)
        project(Foo LANGUAGES C)
        set(A 1)
        option(B "b" ON)
        function(add_x name)
          message(a)
        endfunction()
        macro(m_y)
        endmacro()
        add_library(foo STATIC a.c)
        add_executable(bar b.c)
        add_custom_target(docs)
        include(x.cmake)
        add_subdirectory(src)
        find_package(Boost)
        """,
        "+module Foo;+constant A;+constant B;+function add_x;+macro m_y;+module foo;"
        "+module bar;+module docs",
    ),
    "a.mk": (
        """
        CC := gcc
        include a.mk
        .PHONY: all
        all: main.o test
        \tgcc
        %.o: %.c
        \tgcc $<
        define FOO
        a
        endef
        export X = 1
        """,
        "+constant CC;+function all;+macro FOO;+constant X",
    ),
    "a.nix": (
        r"""
        { pkgs, lib ? null, ... }:
        let
          foo = x: x + 1;
          bar.baz = 2;
        in {
          packages.default = pkgs.hello;
          devShell = pkgs.mkShell { buildInputs = [ ]; };
          imports = [ ./a.nix ];
          x = import ./b.nix;
          f = { a, b }: a;
        }
        """,
        "+function foo;+constant bar.baz;+constant packages.default;+constant devShell;"
        "+constant imports;+function f",
    ),
    "a.css": (
        r"""
        @import "a.css";
        :root { --main: red; }
        .a > .b, #c { color: red; }
        @media (x) { .d { a: b } }
        @keyframes spin { from { a: b } }
        @font-face { a: b }
        """,
        "+constant --main;+function spin",
    ),
    "a.scss": (
        r"""
        @use "a"; @import 'b';
        $c: red;
        @mixin m($a) { a: b }
        @function f($x) { @return 1; }
        .a { .b { c: d } &:hover { e: f } @include m(1); }
        %ph { a: b }
        @keyframes spin { from { a: b } }
        """,
        "+constant $c;+function m;+function f;+class ph;+function spin",
    ),
    "a.ps1": (
        r"""
        function Get-Foo { param($a) 1 }
        filter F { $_ }
        class Bar : Baz { [int]$X; Bar() {} [void] Run([int]$a) { } }
        enum Color { Red }
        $script:Limit = 3
        workflow W { }
        . ./a.ps1
        Import-Module X
        """,
        "+function Get-Foo;+function F;+class Bar;+method Bar.Bar;+method Bar.Run;"
        "+enum Color;+function W",
    ),
    "a.fish": (
        r"""
        function foo --description 'x'
          echo 1
        end
        set -g A 1
        source a.fish
        alias ll 'ls'
        """,
        "+function foo",
    ),
    "a.jl": (
        r"""
        module Foo
        using A
        const LIMIT = 1
        struct P{T} <: Q x::Int end
        mutable struct M end
        abstract type S end
        function f(x::Int) where T
        end
        g(x) = x + 1
        macro m(e) end
        Base.show(io::IO, p::P) = 1
        function Base.foo(x) end
        primitive type Z 8 end
        end
        """,
        "+module Foo;+constant Foo.LIMIT;+struct Foo.P;+struct Foo.M;+interface Foo.S;"
        "+function Foo.f;+function Foo.g;+macro Foo.m;+method Foo.Base.show;"
        "+method Foo.Base.foo;+type Foo.Z",
    ),
    "a.m": (
        r"""
        #import "a.h"
        @interface Foo : NSObject <P>
        @property int x;
        - (void)run:(int)a with:(int)b;
        + (id)make;
        @end
        @implementation Foo
        - (void)run:(int)a with:(int)b { }
        + (id)make { return 0; }
        @end
        @protocol P
        - (void)q;
        @end
        @interface Foo (Cat)
        @end
        int f(void) { return 1; }
        typedef enum { A } K;
        """,
        "+interface Foo;+method Foo.run;+method Foo.make;+class Foo;+method Foo.run;"
        "+method Foo.make;+interface P;+method P.q;+function f;+type K",
    ),
    "a.ml": (
        r"""
        open Foo
        module M = struct let x = 1 let f a b = a end
        type t = A | B of int
        let rec g x = x
        class c = object method m = 1 end
        exception E
        module type S = sig val f : int -> int end
        external e : int -> int = "e"
        """,
        "+module M;+constant M.x;+function M.f;+type t;+function g;+class c;+method c.m;"
        "+type E;+interface S;+method S.f;+function e",
    ),
    "a.erl": (
        r"""
        -module(foo).
        -export([a/1]).
        -record(r, {a}).
        -define(M, 1).
        -type t() :: int.
        a(X) -> X;
        a(Y) -> Y.
        b() -> 1.
        """,
        "+module foo;+struct foo.r;+macro foo.M;+type foo.t;+function foo.a;function foo.b",
    ),
    "a.clj": (
        r"""
        (ns foo.bar (:require [a.b :as c]))
        (defn f [x] x)
        (defn- g [] 1)
        (def K 1)
        (defmacro m [] 1)
        (defprotocol P (q [this]))
        (defrecord R [a])
        (deftype T [])
        (defmulti mm :k)
        """,
        "+module foo.bar;+function foo.bar.f;function foo.bar.g;+constant foo.bar.K;"
        "+macro foo.bar.m;+interface foo.bar.P;+class foo.bar.R;+class foo.bar.T;"
        "+function foo.bar.mm",
    ),
    "a.nim": (
        r"""
        import os
        type Foo = object
          x: int
        const K = 1
        proc f*(a: int): int = a
        func g() = discard
        template t() = discard
        macro m() = discard
        method mm(x: Foo) = discard
        """,
        "struct Foo;constant K;+function f;function g;macro t;macro m;method mm",
    ),
    "a.thrift": (
        r"""
        include "a.thrift"
        struct A { 1: i32 x }
        enum E { A = 1 }
        service S { void f(1: i32 a) }
        exception X {}
        typedef i32 T
        const i32 K = 1
        """,
        "+struct A;+enum E;+interface S;+method S.f;+struct X;+type T;+constant K",
    ),
    "a.fs": (
        r"""
        module Foo
        open System
        let f x = x
        type P = { A: int }
        type U = A | B
        module Inner =
          let g y = y
        type C() =
          member this.M() = 1
        """,
        "+module Foo;+function Foo.f;+struct Foo.P;+enum Foo.U;+module Foo.Inner;"
        "+function Foo.Inner.g;+class Foo.C;+method Foo.C.M",
    ),
    "a.v": (
        r"""
        module foo #(parameter N=1)(input a, output b);
        function int f(int x); endfunction
        task t; endtask
        endmodule
        package p; endpackage
        class c; endclass
        interface i; endinterface
        """,
        "+module foo;+function foo.f;+function foo.t;+module p;+class c;+interface i",
    ),
    "a.vhd": (
        r"""
        entity foo is port (a: in bit); end foo;
        architecture rtl of foo is
        function f(x: integer) return integer is begin return 1; end f;
        begin
        p1: process begin wait; end process p1;
        end rtl;
        package pk is end pk;
        """,
        "+module foo;+module rtl;+function rtl.f;+module pk",
    ),
    "a.d": (
        r"""
        module a.b;
        import std.stdio;
        class Foo : Bar { int x; void run(int a) {} this(int b) {} }
        struct S {}
        interface I { void q(); }
        enum E { A }
        int f(int x) { return 1; }
        template T(A) {}
        """,
        "+class Foo;+method Foo.run;+method Foo.this;+struct S;+interface I;+method I.q;"
        "+enum E;+function f;+macro T",
    ),
    "a.prisma": (
        r"""
        model User { id Int @id }
        enum Role { A }
        datasource db { provider = "x" }
        """,
        "+struct User;+enum Role",
    ),
    "a.bzl": (
        r"""
        load("//a:b.bzl", "c")
        X = 1
        def f(a):
            return 1
        cc_library(name = "foo", srcs = ["a"])
        """,
        "+constant X;+function f;+module foo",
    ),
    "a.apex": (
        r"""
        public class Foo extends B implements I {
         public static final Integer K = 1;
         public void run(Integer a) {}
         public Foo() {} enum E {A} interface J { void q(); } }
        trigger T on Account (before insert) { }
        """,
        "+class Foo;+constant Foo.K;+method Foo.run;+method Foo.Foo;enum Foo.E;"
        "interface Foo.J;method Foo.J.q;function T",
    ),
    "a.tcl": (
        r"""
        proc foo {a b} { return 1 }
        namespace eval bar { proc baz {} {} }
        """,
        "+function foo;+module bar;+function bar.baz",
    ),
    "a.vim": (
        r"""
        function! s:Foo(a) abort
        endfunction
        let g:x = 1
        command! Bar call s:Foo()
        """,
        "+method s.Foo;+constant g.x;+function Bar",
    ),
    "a.gd": (
        r"""
        class_name Foo
        extends Node
        const A = 1
        signal s
        enum E { X }
        class Inner:
          func g(): pass
        func f(a): pass
        """,
        "+class Foo;+constant Foo.A;+type Foo.s;+enum Foo.E;+class Foo.Inner;"
        "+method Foo.Inner.g;+method Foo.f",
    ),
    "a.gleam": (
        r"""
        import a/b
        pub fn f(x) { x }
        pub type T { A B }
        const k = 1
        """,
        "+function f;+type T;constant k",
    ),
    "a.elm": (
        r"""
        module Foo exposing (f)
        import A
        type alias P = { a : Int }
        type U = A | B
        f : Int -> Int
        f x = x
        """,
        "+type P;+enum U;+function f",
    ),
    "a.el": (
        r"""
        (defun f (a) "doc" 1)
        (defmacro m () 1)
        (defvar v 1)
        (defconst c 1)
        (defcustom d 1 "x")
        (require 'x)
        """,
        "+function f;+macro m;+constant v;+constant c;+constant d",
    ),
    "a.mli": (
        r"""
        val f : int -> int
        type t = A
        module M : sig val g : int end
        """,
        "+function f;+type t;+module M;+function M.g",
    ),
    "a.glsl": (
        r"""
        uniform float x;
        vec3 f(vec3 a) { return a; }
        struct L { vec3 p; };
        """,
        "+function f;+struct L",
    ),
    "a.hlsl": (
        r"""
        struct V { float4 p; };
        float4 main(V v) { return v.p; }
        """,
        "+struct V;+function main",
    ),
    "a.cu": (
        r"""
        template <class T> struct S {};
        __global__ void k(int *a) { a[0] = 1; }
        """,
        "+struct S;+function k",
    ),
    "a.luau": (
        r"""
        local function f(a: number): number return a end
        function M.g() end
        export type T = number
        """,
        "function f;+method M.g",
    ),
}


def row(symbol):
    return f"{'+' if symbol.is_exported else ''}{symbol.kind} {symbol.qualified_name}"


def symbols(text, path):
    return parse(dedent(text).lstrip("\n").encode(), path=path).symbols


@pytest.mark.parametrize("path", CASES)
def test_the_symbols_of_a_file_are_found(path):
    text, expected = CASES[path]
    assert [row(symbol) for symbol in symbols(text, path)] == expected.split(";")


def test_every_query_has_a_sample_here_or_among_the_common_languages():
    seen = {parse(b"x\n", path=path).language for path in CASES}
    with_query = {name for name in BY_NAME if any(grammars.query_source(name))}
    assert with_query - COMMON <= seen


def test_a_function_ends_with_its_body_even_if_the_grammar_puts_that_beside_it():
    (symbol,) = symbols("void f() {\n  g();\n}\n", "a.dart")
    assert (symbol.start_line, symbol.end_line) == (1, 3)


def test_a_package_without_a_block_ends_at_the_next_one():
    found = symbols("package A;\nsub f { 1 }\npackage B;\nsub g { 1 }\n", "a.pm")
    assert [(s.qualified_name, s.start_line) for s in found] == [
        ("A", 1), ("A.f", 2), ("B", 3), ("B.g", 4),
    ]  # fmt: skip
    assert [s.end_line for s in found if s.name in "AB"] == [2, 4]
