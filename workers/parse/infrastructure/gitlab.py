"""Pipelines of GitLab: what is no keyword at the top is a job, with a dot in front a template."""

from workers.parse.infrastructure.blocks import Rule

_KEYWORDS = (
    "default include stages variables workflow image services cache before_script after_script spec"
)

PIPELINE = (
    *(Rule(word, word) for word in _KEYWORDS.split()),
    Rule(".*", "template", of_mappings=True),
    Rule("*", "job", (Rule("script", "script"), Rule("rules", "rules")), of_mappings=True),
)
