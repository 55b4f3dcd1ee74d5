"""The tracer to use, if there is one, and the rule that tracing never fails a message. Knows no span's meaning."""

import logging
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from opentelemetry import trace
from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider, Tracer, TracerProvider

__all__ = ("Tracers", "unfailing")

_logger: Final = logging.getLogger("mqflow.otel")
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Tracers:
    """Looks the tracer up until there is one: an application may set its tracer provider after it made its `App`."""

    __slots__ = ("_provider", "_tracer")

    def __init__(self, provider: TracerProvider | None) -> None:
        self._provider = provider
        self._tracer: Tracer | None = None

    def tracer(self) -> Tracer | None:
        """Return the tracer, or None as long as nobody has set a tracer provider: then there is nothing to trace for."""
        if self._tracer is None:
            provider = self._provider or trace.get_tracer_provider()
            if isinstance(provider, ProxyTracerProvider | NoOpTracerProvider):
                return None
            self._tracer = provider.get_tracer("mqflow")
        return self._tracer


def unfailing(function: Callable[_P, _T]) -> Callable[_P, _T | None]:
    """Return the function made to log what it raises and return None: telemetry that breaks costs a trace, never a message."""

    @wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        try:
            return function(*args, **kwargs)
        except Exception:
            _logger.exception("%s failed; the message it was about goes on untraced", function.__qualname__)
            return None

    return guarded
