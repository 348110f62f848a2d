"""Log with structlog to stdout: one JSON object per line, or readable lines on a terminal.

Events are static snake_case names; data goes into fields. Fields hold identifiers, never source
text or secrets.
"""

from __future__ import annotations

import logging
import sys

import structlog

from codelode.display import plain, quoted
from codelode.settings import Settings, unknown_variables


def configure(settings: Settings) -> None:
    """Send structlog and the loggers of the standard library to stdout in one format.

    Called once when a process starts. Also logs a warning for each misspelt setting.
    """

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    is_console = settings.log_format == "console" or (
        settings.log_format == "auto" and sys.stdout.isatty()
    )
    renderers: tuple[structlog.typing.Processor, ...] = (
        (_quoted, structlog.dev.ConsoleRenderer())
        if is_console
        else (structlog.processors.JSONRenderer(),)  # in ASCII
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                *renderers,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    for name, nearest in unknown_variables().items():
        structlog.get_logger("settings").warning("setting_unknown", name=name, nearest=nearest)


def _quoted(
    _logger: structlog.typing.WrappedLogger, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Quote the texts of fields, which may be names of files; tracebacks keep their lines."""
    texts = ("event", "exception", "stack")
    return {
        name: (plain if name in texts else quoted)(value) if isinstance(value, str) else value
        for name, value in event.items()
    }
