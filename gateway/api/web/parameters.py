"""Define the parameters of the search page, whose URL has all of its state."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from codelode.query_language import parts_of
from gateway.api.rest.bodies import Query, Text
from gateway.api.web.links import link
from gateway.service.queries import MAX_QUERY_CHARS
from gateway.service.requests import GivenFilters, GivenOptions, SearchRequest

#: Number of hits on a page.
TOP_K = 30

#: The fields of filters in a query that say where to search.
_WHERE = ("repositories", "ref", "scope")


class SearchParameters(Query):
    q: Text = Field(default="", description="The query.")
    repo: list[Text] = Field(default=[], description="Search only these repositories.")
    language: list[Text] = Field(default=[], description="Search only these languages.")
    kind: list[Text] = Field(default=[], description="Search only these kinds of symbols.")
    path: list[Text] = Field(default=[], description="Search only these paths, which are globs.")
    not_repo: list[Text] = Field(default=[], description="Leave these repositories out.")
    not_language: list[Text] = Field(default=[], description="Leave these languages out.")
    not_path: list[Text] = Field(default=[], description="Leave these paths out.")
    ref: Text = Field(default="", description="Branch, tag, or commit.")
    scope: Text = Field(default="", description="Search only in this scope.")
    collapse: bool = Field(default=False, description="Show the best file of each repository.")
    copies: bool = Field(default=False, description="Show each copy of a hit as a hit.")
    why: bool = Field(default=False, description="Show the parts of each score.")
    page: Text = Field(default="", description="Token of a later page.")

    @property
    def says_where(self) -> bool:
        """Return whether a filter names repositories, a ref, or a scope; then none is offered."""
        named = self.repo or self.not_repo or self.ref or self.scope
        return bool(named) or any(
            one.field in _WHERE for one in parts_of(self.q[:MAX_QUERY_CHARS]).filters
        )

    def given(self) -> SearchRequest:
        return SearchRequest(
            self.q,
            GivenFilters(
                repositories=self.repo,
                languages=self.language,
                kinds=self.kind,
                paths=self.path,
                ref=self.ref,
                not_repositories=self.not_repo,
                not_languages=self.not_language,
                not_paths=self.not_path,
                scope=self.scope,
            ),
            top_k=TOP_K,
            options=GivenOptions(values={"rank.collapse_copies": False} if self.copies else {}),
            explain=self.why,
            page_token=self.page,
            facets=True,
        )

    def url(self, **changes: Any) -> str:
        """Return the URL of the first page of results, with other values of some parameters."""
        given = {**dict(self), "page": "", **changes}
        return link("/search" if any(given.values()) else "/", **given)

    def with_value(self, name: str, value: str) -> str:
        """Return the URL of the page with one more value of a parameter."""
        held = [one for one in getattr(self, name) if one != value]
        return self.url(**{name: [*held, value]})

    def without_value(self, name: str, value: str) -> str:
        return self.url(**{name: [one for one in getattr(self, name) if one != value]})
