"""Bad input through the real pull: every entry of a commit ends in the index or in a reason."""

from workers.parse import guard, parse
from workers.pull import plan

FILE, LINK, SUBMODULE = "100644", "120000", "160000"
MAX_BYTES = 1_000_000

ENTRIES = {
    "a.py": "def f(): pass\n",
    "A.py": "def g(): pass\n",  # one file where case does not count
    b"caf\xe9.py": "def h(): pass\n",
    b"\xff\xfe/x.py": "def i(): pass\n",
    "line\nbreak.py": "def j(): pass\n",
    "cut.py": "def whole(): pass\n\nclass A:\n    def f(self, x",
    "deep.json": "[" * 100_000,
    "deep.js": "(" * 100_000,
    "long.txt": "x" * 1_500_000,
    "program.py": b"\x7fELF\0\0" * 100,
    "photo.c": "version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 1\n",
    "empty.py": "",
    "inside.py": "a.py",
    "outside.py": "../../../etc/passwd",
    "loop": "loop",
    "module": "1234567890" * 4,
    "wide.py": "class Größe: pass\n".encode("utf-16"),
    "latin.py": "class Größe: pass\n".encode("latin-1"),
}
MODES = {"inside.py": LINK, "outside.py": LINK, "loop": LINK, "module": SUBMODULE}

REASONS = {
    "long.txt": "too_large",
    "program.py": "binary",
    "photo.c": "git lfs pointer",
    "empty.py": "empty",
    "inside.py": "symlink",
    "outside.py": "symlink",
    "loop": "symlink",
    "module": "submodule",
}
SYMBOLS = {
    "a.py": ["f"],
    "A.py": ["g"],
    "caf\\xe9.py": ["h"],
    "\\xff\\xfe/x.py": ["i"],
    "line\nbreak.py": ["j"],
    "cut.py": ["whole"],
    "wide.py": ["Größe"],
    "latin.py": ["Größe"],
}


def test_every_entry_of_a_commit_ends_in_the_index_or_in_a_reason(
    source, mirrors, repository, blobs
):
    commit = source.commit(ENTRIES, modes=MODES)
    mirrors.sync(repository)
    manifest = plan(
        mirrors.git_dir(repository.name),
        commit,
        indexed=None,
        known=lambda: (),
        max_file_bytes=MAX_BYTES,
    )
    reasons = {record.path: record.reason for record in manifest.skipped}
    symbols = {}
    for item in manifest.items:
        data = blobs.read(repository.name, item.blob)
        reason = guard(data, path=item.path, max_bytes=MAX_BYTES)
        if reason:
            reasons[item.path] = reason
        else:
            parsed = parse(data, path=item.path)
            assert parsed.pieces
            symbols[item.path] = [symbol.name for symbol in parsed.symbols]
    assert len(reasons) + len(symbols) == len(ENTRIES)
    assert {path: reasons[path].split(":")[0] for path in REASONS} == REASONS
    assert {path: symbols[path] for path in SYMBOLS} == SYMBOLS
