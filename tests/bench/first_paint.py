"""Measure, in a browser, the time from Enter on the search page to the first painted result.

    python tests/bench/first_paint.py [--data DIR] [--json FILE]

A temporary cluster indexes the packages of the bundled judged queries, and chromium sends these
queries one after the other, each once: as a user of the page does, by typing and Enter, or as a
link does, by opening the address. The consecutive parts of the time are: until the request leaves
the browser, until the first byte of the answer, until its last byte, until results are in the
document, and until the frame with them is painted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise, zip_longest
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import embedded
import httpx

from codelode.client import Client
from codelode.cluster import running_cluster, token_of
from codelode.operations.evaluation.metrics import percentile
from tests.browsers import running_browser
from tests.judged_packages import PACKAGES, QUERIES, commit_packages

if TYPE_CHECKING:
    from playwright.sync_api import Page

INDEX_LIMIT_S = 600
#: Number of queries that are sent first and not counted.
WARM_UP = 5
#: Interval at which the page is checked, milliseconds; each check costs it a little time.
POLL_MS = 20.0

#: Script that records when Enter is pressed, when the first result is in the document, and when it
#: is painted: a task that is posted in the callback of a frame runs after the frame.
OBSERVER = """
addEventListener('keydown', (event) => {
  if (event.key === 'Enter') window.seen = { entered: event.timeStamp };
}, true);
addEventListener('DOMContentLoaded', () => {
  const found = () => {
    const seen = window.seen;
    if (!seen || seen.shown || !document.querySelector('#results .hit')) return;
    seen.shown = performance.now();
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => { seen.painted = performance.now(); };
      port2.postMessage(0);
    });
  };
  new MutationObserver(found).observe(document.getElementById('results'), { childList: true });
});
"""

TIMES = """() => {
  const { entered, shown, painted } = window.seen;
  const resources = performance.getEntriesByType('resource');
  const at = resources.find((one) => one.startTime >= entered);
  return { entered, sent: at.requestStart, first: at.responseStart, last: at.responseEnd,
    shown, painted };
}"""

IS_PAINTED = "() => performance.getEntriesByName('first-contentful-paint').length"

OPENED = """() => {
  const [at] = performance.getEntriesByType('navigation');
  const [painted] = performance.getEntriesByName('first-contentful-paint');
  return { entered: 0, sent: at.requestStart, first: at.responseStart, last: at.responseEnd,
    shown: at.domInteractive, painted: painted.startTime };
}"""

PARTS = ("entered", "sent", "first", "last", "shown", "painted")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, help="keep the index here for the next time")
    parser.add_argument("--json", type=Path, help="write the figures here, with the machine")
    options = parser.parse_args()
    facts = embedded.machine()
    with _served(options.data) as (url, token), running_browser() as browser:
        page = browser.new_context(base_url=url).new_page()
        page.add_init_script(OBSERVER)
        page.goto(_link(url, token))
        report = _measured(page, _queries())
    for name, figures in report.items():
        print(f"{name:8}{figures}")
    if options.json:
        options.json.write_text(json.dumps(report | {"facts": facts}, indent=1))


def _queries() -> list[str]:
    """Return the judged queries, with those about different repositories alternating."""
    about = [[one["query"] for one in each["queries"]] for each in json.loads(QUERIES.read_text())]
    return [query for row in zip_longest(*about) for query in row if query]


@contextmanager
def _served(data: Path | None) -> Iterator[tuple[str, str]]:
    """Yield the address of a cluster that has indexed the packages, and its token."""
    with tempfile.TemporaryDirectory(prefix="codelode-bench-") as scratch:
        corpus, held = Path(scratch) / "corpus", data or Path(scratch) / "data"
        is_new = not held.exists()
        held.mkdir(parents=True, exist_ok=True)
        with embedded.running(held, local_paths=str(corpus), cache_entries="0") as cluster:
            if is_new:
                _index(cluster.address, corpus)
            running = running_cluster(held)
            assert running is not None
            yield running.http, token_of(cluster.address, held)


def _index(address: str, corpus: Path) -> None:
    commit_packages(corpus)
    with Client(address, timeout_s=60) as client:
        for name in PACKAGES:
            embedded.index(client, str(corpus / name), name=name, limit_s=INDEX_LIMIT_S)


def _link(url: str, token: str) -> str:
    """Return the address that signs the browser in."""
    answer = httpx.post(f"{url}/sign-in/link", headers={"authorization": f"Bearer {token}"})
    return url + str(answer.json()["path"])


def _measured(page: Page, queries: Sequence[str]) -> dict[str, dict[str, float]]:
    half = len(queries) // 2
    typed = [_typed(page, query) for query in queries[:half]]
    opened = [_opened(page, query) for query in queries[half:]]
    return {"typed": _figures(typed[WARM_UP:]), "opened": _figures(opened[WARM_UP:])}


def _typed(page: Page, query: str) -> Mapping[str, float]:
    # Set at once, because the page would begin to search while letters are typed.
    page.evaluate("query => { document.getElementById('q').value = query; }", query)
    page.press("#q", "Enter")
    page.wait_for_function("() => window.seen?.painted", polling=POLL_MS)
    return _times(page, TIMES)


def _opened(page: Page, query: str) -> Mapping[str, float]:
    page.goto(f"/search?{urlencode({'q': query})}")
    page.wait_for_function(IS_PAINTED, polling=POLL_MS)
    return _times(page, OPENED)


def _times(page: Page, script: str) -> Mapping[str, float]:
    found: Mapping[str, float] = page.evaluate(script)
    return found


def _figures(times: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the time until the first result is painted, and the median of each part of it, ms."""
    whole = [one["painted"] - one["entered"] for one in times]
    figures: dict[str, Any] = {"n": len(whole)}
    figures |= {f"p{part}": round(percentile(whole, part), 1) for part in (50, 95, 100)}
    figures["best"] = round(min(whole), 1)
    for before, after in pairwise(PARTS):
        figures[after] = round(median(one[after] - one[before] for one in times), 1)
    return figures


if __name__ == "__main__":
    main()
