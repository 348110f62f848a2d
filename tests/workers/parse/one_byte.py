"""Parse the byte `x` and open brackets in each of the given languages, and print each name before.

This is a program of its own, because a grammar may crash or loop. Usage: one_byte.py LANGUAGE…
"""

import sys

from codelode.languages import BY_NAME
from workers.parse import parse

for name in sys.argv[1:]:
    print(name, flush=True)
    row = BY_NAME[name]
    path = f"a{row.extensions[0]}" if row.extensions else row.filenames[0]
    for data in (b"x", b"[{(" * 700):
        parse(data, path=path)
print("done", flush=True)
