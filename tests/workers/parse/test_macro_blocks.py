"""Items in the blocks of Rust macros are symbols like any other."""

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


def test_arguments_that_are_no_code_define_nothing():
    assert found(TABLES)[1] == []


def test_blocks_in_blocks_take_linear_time():
    depth = 2_000
    text = "a! { " * depth + "fn f() {}" + " }" * depth
    assert found(text)[1] == []
