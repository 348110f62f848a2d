"""Parse odd bytes with every grammar.

This is a separate program, because a grammar may crash or loop. It prints each language before it
parses, so that the last line names the culprit. Usage: fuzz.py SEED
"""

import random
import sys

from codelode import languages
from workers.parse import parse

#: Grammars that loop for ever, on the byte `x` or on random bytes; workers have a time limit.
LOOPS = {"cobol", "perl"}

SAMPLES = (
    b'class A {\n  def f(x) { return [x, "y"]; }\n}\n',
    b"fn main() -> i32 {\n    let x = 'a';\n    // note\n    x\n}\n",
    b'<a href="b">{{ c }}</a>\n<script>if (a < b) {}</script>\n',
    b'key: [1, 2]\nother = "v"\n- item\n# heading\n',
    b"begin\n  if a then b; end\nend.\nSELECT * FROM t WHERE x = 'y';\n",
)


def inputs(rng):
    yield rng.randbytes(300)
    yield bytes(rng.choices(b"(){}[]<>\"'`;:,.#/*-+=\\\n\t ax1", k=400))
    for sample in SAMPLES:
        yield sample[: rng.randrange(len(sample))]


def check(data, path):
    parsed = parse(data, path=path)
    ends = [piece.end_byte for piece in parsed.pieces]
    assert [0, *ends][:-1] == [piece.start_byte for piece in parsed.pieces]
    assert [0, *ends][-1] == len(data)


def main():
    rng = random.Random(int(sys.argv[1]))
    for language in languages.LANGUAGES:
        if language.name in LOOPS or language.grammar is None:
            continue
        path = f"a{language.extensions[0]}" if language.extensions else language.filenames[0]
        print(language.name, flush=True)
        for data in inputs(rng):
            check(data, path)
    print("done", flush=True)


if __name__ == "__main__":
    main()
