"""Workflows and actions of GitHub, and of the forges that read the same files."""

from workers.parse.infrastructure.blocks import Rule, under

WORKFLOW = (
    Rule("on", "trigger"),
    Rule("env", "env"),
    under(
        "jobs",
        "job",
        (Rule("strategy", "strategy"), Rule("steps", "steps"), under("services", "service")),
    ),
)

ACTION = (
    under("inputs", "input"),
    under("outputs", "output"),
    Rule("runs", "runs", (Rule("steps", "steps"),)),
)
