"""Parse pages in tests: their elements, texts, and tables."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = {"br", "hr", "img", "input", "link", "meta"}


class Page(HTMLParser):
    """The elements of a page in order: (tag, attributes, text inside)."""

    def __init__(self, response):
        super().__init__()
        self.status = response.status_code
        self.elements = []
        self._open = []
        self.feed(response.text)
        self.close()

    def handle_starttag(self, tag, attrs):
        element = [tag, dict(attrs), ""]
        self.elements.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        assert self._open, f"</{tag}> without an open element"
        assert self._open[-1][0] == tag, f"</{tag}> ends {self._open[-1]}"
        self._open.pop()

    def handle_data(self, data):
        for element in self._open:
            element[2] += data

    def all(self, tag, **attributes):
        """Return the attributes and the text of each element with this tag and these attributes."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [
            (found, " ".join(text.split()))
            for kind, found, text in self.elements
            if kind == tag and wanted.items() <= found.items()
        ]

    def texts(self, tag, **attributes):
        return [text for _, text in self.all(tag, **attributes)]

    def link(self, text):
        """Return the URL of the first link with the text."""
        return next(one["href"] for one, found in self.all("a") if found == text)

    def links(self):
        return [one["href"] for one, _ in self.all("a")]

    def rows(self, id):
        """Return the texts of the cells of a table, row by row, without its head."""
        start = next(at for at, one in enumerate(self.elements) if one[1].get("id") == id)
        found = []
        for tag, _, text in self.elements[start + 1 :]:
            if tag in ("table", "section"):
                break
            if tag == "tr":
                found.append([])
            elif tag in ("td", "th"):
                found[-1].append(" ".join(text.split()))
        return found[1:]

    @property
    def text(self):
        return next(text for tag, _, text in self.elements if tag == "main")
