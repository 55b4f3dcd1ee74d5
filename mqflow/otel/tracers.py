"""Finds the tracer, and logs errors of tracing, so that they fail no message."""

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
    """Finds the tracer, even if the application sets its tracer provider after it has made its `App`."""

    __slots__ = ("_provider", "_tracer")

    def __init__(self, provider: TracerProvider | None) -> None:
        self._provider = provider
        self._tracer: Tracer | None = None

    def tracer(self) -> Tracer | None:
        """Return the tracer; None until a tracer provider is set."""
        if self._tracer is None:
            provider = self._provider or trace.get_tracer_provider()
            if isinstance(provider, ProxyTracerProvider | NoOpTracerProvider):
                return None
            self._tracer = provider.get_tracer("mqflow")
        return self._tracer


def unfailing(function: Callable[_P, _T]) -> Callable[_P, _T | None]:
    """Return a function that logs each exception and returns None. So an error of telemetry loses a trace, not a message."""

    @wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        try:
            return function(*args, **kwargs)
        except Exception:
            _logger.exception("%s failed; its message goes on without a trace", function.__qualname__)
            return None

    return guarded
