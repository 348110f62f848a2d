"""`codelode settings`: list every setting of a cluster."""

from __future__ import annotations

import click
from pydantic.fields import FieldInfo

from codelode.backends import registry
from codelode.cli import printing
from codelode.settings import BACKENDS, Settings

_COLUMNS = ("variable", "default", "range", "description")


@click.command()
@click.option("--markdown", is_flag=True, help="Print a Markdown table.")
def settings(*, markdown: bool) -> None:
    """List every setting: its environment variable, default, range, and meaning.

    \b
    Example:
      CODELODE_MAX_FILE_BYTES=2000000 codelode up
    """
    rows = [_setting_row(name, field) for name, field in Settings.model_fields.items()]
    click.echo(_markdown(rows) if markdown else printing.table(_COLUMNS, rows))


def _setting_row(name: str, field: FieldInfo) -> tuple[str, str, str, str]:
    default = str(field.default)
    return f"CODELODE_{name.upper()}", default, _range(name, field), field.description or ""


def _range(name: str, field: FieldInfo) -> str:
    literals = getattr(field.annotation, "__args__", ())
    if known := registry.choices(name) if name in BACKENDS else literals:
        return " | ".join(map(str, known))
    bounds = {
        sign: value
        for limit in field.metadata
        for sign in ("ge", "le")
        if (value := getattr(limit, sign, None)) is not None
    }
    return f"{bounds['ge']:,} to {bounds['le']:,}" if len(bounds) == 2 else ""


def _markdown(rows: list[tuple[str, str, str, str]]) -> str:
    head = [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
    body = [
        f"| `{variable}` | {f'`{default}`' if default else ''} | {range_} | {description} |"
        for variable, default, range_, description in (
            tuple(cell.replace("|", "\\|") for cell in row) for row in rows
        )
    ]
    return "\n".join(head + body)
