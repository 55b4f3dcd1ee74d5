"""Telemetry that settings switch on: providers from the SDK, exporters by OpenTelemetry's own variables.

`OTEL_TRACES_EXPORTER` and `OTEL_METRICS_EXPORTER` name an exporter that some installed distribution offers ("otlp" unless said
otherwise); what the exporter itself needs, it reads from its own variables. Knows the SDK; knows no span.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, Final

from opentelemetry.metrics import MeterProvider, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider as SDKMeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider as SDKTracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NoOpTracerProvider, TracerProvider

from mqflow.app.application import App
from mqflow.app.errors import ConfigurationError
from mqflow.app.settings import TelemetrySettings
from mqflow.otel.telemetry import OpenTelemetry

__all__ = ("add_telemetry",)

_DEFAULT_EXPORTER: Final = "otlp"


def add_telemetry(app: App, telemetry: TelemetrySettings, environment: Mapping[str, str]) -> Callable[[], None]:
    """Make the application traced and counted as the settings say; return what exports the rest when it has ended.

    Raises `ConfigurationError` where an exporter is named that nobody here offers.
    """
    if not telemetry.traces and not telemetry.metrics:
        return _nothing
    resource = Resource.create({} if "OTEL_SERVICE_NAME" in environment else {"service.name": app.name or "mqflow"})
    tracer_provider: TracerProvider = NoOpTracerProvider()
    meter_provider: MeterProvider = NoOpMeterProvider()
    ends: list[Callable[[], object]] = []
    if telemetry.traces:
        spans = SDKTracerProvider(resource=resource)
        spans.add_span_processor(BatchSpanProcessor(_exporter("traces", environment)))
        tracer_provider = spans
        ends.append(spans.shutdown)
    if telemetry.metrics:
        counts = SDKMeterProvider([PeriodicExportingMetricReader(_exporter("metrics", environment))], resource=resource)
        meter_provider = counts
        ends.append(counts.shutdown)
    hook = OpenTelemetry(tracer_provider=tracer_provider, meter_provider=meter_provider)
    app.middleware.append(hook)
    app.hooks.append(hook)
    return lambda: _all(ends)


def _exporter(signal: str, environment: Mapping[str, str]) -> Any:
    """Return an exporter of the kind that the signal's variable names."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    name = environment.get(variable, _DEFAULT_EXPORTER)
    offered = entry_points(group=f"opentelemetry_{signal}_exporter")
    if name not in offered.names:
        raise ConfigurationError(
            f"telemetry.{signal} is on, but no installed distribution offers the exporter {name!r}; installed: "
            f"{', '.join(sorted(offered.names)) or 'none'}. Install opentelemetry-exporter-otlp, or name another in {variable}."
        )
    return offered[name].load()()


def _all(ends: list[Callable[[], object]]) -> None:
    for end in ends:
        end()


def _nothing() -> None:
    """Nothing was added, so nothing is left to export."""
