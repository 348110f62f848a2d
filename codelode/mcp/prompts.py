"""The prompts: questions that users choose from a menu of their agent."""

from __future__ import annotations

from dataclasses import dataclass

from codelode.errors import InvalidQuery


@dataclass(frozen=True, slots=True)
class Prompt:
    """A question about a file or a symbol, with `{subject}` and `{where}` to be filled in."""

    name: str
    description: str
    text: str


#: The arguments of every prompt, and whether each must be given.
ARGUMENTS = {"subject": True, "repository": False}

PROMPTS = {
    prompt.name: prompt
    for prompt in (
        Prompt(
            "explain",
            "Explain a file or a symbol.",
            "Explain {subject}{where}. Call the codelode tool `explain` for it, then `graph` for "
            "what it depends on, and `search` or `context` for code that is still unclear. Say "
            "what it is for, how it works, who uses it, and which tests cover it. Name every place "
            "as path:line.",
        ),
        Prompt(
            "impact",
            "Say what a change of a file or a symbol affects.",
            "What does a change of {subject}{where} affect? Call the codelode tool `graph` with "
            "`reverse` for it, `explain` for its tests, and `search` for uses by name that no edge "
            "shows, such as in configuration and documents. List what breaks, what has to be "
            "checked, and which tests to run, by repository and with path:line. Say what is "
            "certain and what is a guess.",
        ),
    )
}


def filled(name: str, given: dict[str, str]) -> str:
    """Return the text of a prompt. Raises InvalidQuery for an unknown name or argument."""
    prompt = PROMPTS.get(name)
    if prompt is None:
        raise InvalidQuery("name", f"there is no prompt {name!r}; there are: {', '.join(PROMPTS)}")
    if unknown := given.keys() - ARGUMENTS.keys():
        told = f"unknown; there are: {', '.join(ARGUMENTS)}"
        raise InvalidQuery(", ".join(sorted(unknown)), told)
    if not given.get("subject", "").strip():
        raise InvalidQuery("subject", "is missing; give the path of a file or the name of a symbol")
    where = f" in the repository {given['repository']}" if given.get("repository") else ""
    return prompt.text.format(subject=given["subject"], where=where)
