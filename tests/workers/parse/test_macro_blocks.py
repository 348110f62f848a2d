"""Items in the blocks of Rust macros are symbols like any other."""

import pytest

from workers.parse import parse

TOKIO = """\
use std::io;

cfg_net! {
    /// A TCP socket server.
    pub struct TcpListener {
        io: PollEvented<mio::net::TcpListener>,
    }
}

impl TcpListener {
    cfg_rt! {
        pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<TcpListener> {
            resolve(addr)
        }
    }
}

cfg_rt! {
    mod inner {
        cfg_unstable! {
            fn deepest() {}
        }
    }
}
"""

ARMS = """\
cfg_if::cfg_if! {
    if #[cfg(unix)] {
        pub fn poll() -> u8 { 1 }
    } else if #[cfg(windows)] {
        pub fn wait() -> u8 { 2 }
    } else {
        cfg_rt! { pub fn park() {} }
    }
}

impl Batch {
    cfg_metrics! {
        stable: {
            pub(crate) fn start(&mut self) {}
        },
        unstable: {
            /// Counts a poll.
            pub(crate) fn count(&mut self) { self.n += 1; }
        }
    }
}

cfg_select! {
    unix => { struct Fd(i32); }
    _ => { struct Handle(usize); }
}

fn made() -> Tokens {
    quote! {
        impl #name {
            fn generated(&self) -> u8 { 1 }
        }
        fn #helper() { struct Inner {} }
    }
}
"""

TABLES = """\
bitflags! {
    pub struct Flags: u32 { const A = 1; }
}
table! { fn => struct Row, 1 2 3 }
"""


def found(text):
    parsed = parse(text.encode(), path="src/a.rs")
    return parsed, [
        (s.kind.value, s.qualified_name, s.start_line, s.end_line) for s in parsed.symbols
    ]


def test_items_in_macro_blocks_are_symbols_with_their_lines():
    parsed, symbols = found(TOKIO)
    assert symbols == [
        ("struct", "TcpListener", 5, 7),
        ("method", "TcpListener.bind", 12, 14),
        ("module", "inner", 19, 23),
        ("function", "inner.deepest", 21, 21),
    ]
    assert [s.is_exported for s in parsed.symbols] == [True, True, False, False]
    assert parsed.symbols[0].doc == "A TCP socket server."
    assert "resolve" in {use.name for use in parsed.references}


def test_items_in_arms_of_macro_blocks_are_symbols_but_code_templates_are_not():
    parsed, symbols = found(ARMS)
    assert symbols == [
        ("function", "poll", 3, 3),
        ("function", "wait", 5, 5),
        ("function", "park", 7, 7),
        ("method", "Batch.start", 14, 14),
        ("method", "Batch.count", 18, 18),
        ("struct", "Fd", 24, 24),
        ("struct", "Handle", 25, 25),
        ("function", "made", 28, 35),
    ]
    assert parsed.symbols[4].doc == "Counts a poll."


def test_arguments_that_are_not_code_define_nothing():
    assert found(TABLES)[1] == []


@pytest.mark.slow
def test_blocks_in_blocks_take_linear_time():
    depth = 2_000
    text = "a! { " * depth + "fn f() {}" + " }" * depth
    assert found(text)[1] == []
    assert found("a! { " + "x: { 1 2 " * depth + "fn f() {}" + " }" * depth + " }")[1] == []
