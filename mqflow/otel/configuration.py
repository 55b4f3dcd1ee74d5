"""Adds telemetry to an application if its settings ask for telemetry. Makes the providers of the OpenTelemetry SDK.

`OTEL_TRACES_EXPORTER` and `OTEL_METRICS_EXPORTER` name an exporter of an installed distribution. The exporter reads its own
environment variables. If one of the two variables is not set, empty or `none`, its traces or metrics go to the global provider.
The application, or other instrumentation of the process, may have set this provider.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Any, Final

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from mqflow.app.application import App
from mqflow.app.errors import ConfigurationError
from mqflow.otel.stream_metrics import StreamMetrics
from mqflow.otel.telemetry import OpenTelemetry

__all__ = ("add_telemetry", "stream_metrics")

_NO_EXPORTER: Final = "none"


def add_telemetry(app: App, environment: Mapping[str, str]) -> Callable[[], None]:
    """Add an `OpenTelemetry` to the application, and to each included application, unless that application has its own.

    Returns a function that exports all remaining telemetry. Call this function when the application has ended. Raises
    `ConfigurationError` if a variable names an exporter that is not installed.
    """
    ends: list[Callable[[], object]] = []
    if not _has_telemetry(app):
        resource = _resource(app.name or "mqflow")
        tracer_provider = None
        if (spans := _exporter("traces", environment)) is not None:
            tracer_provider = TracerProvider(resource=resource)
            tracer_provider.add_span_processor(BatchSpanProcessor(spans))
            ends.append(tracer_provider.shutdown)
        if (meter_provider := _meter_provider(resource, environment)) is not None:
            ends.append(meter_provider.shutdown)
        telemetry = OpenTelemetry(tracer_provider=tracer_provider, meter_provider=meter_provider)
        for each in (app, *app.included):
            if not _has_telemetry(each):
                each.middleware.append(telemetry)

    def export_the_rest() -> None:
        for end in ends:
            end()

    return export_the_rest


def stream_metrics(environment: Mapping[str, str]) -> tuple[StreamMetrics, Callable[[], object]]:
    """Return the metrics of `mqflow spark stream`, and a function that exports all remaining metrics: call it at the end.

    Raises `ConfigurationError` like `add_telemetry`.
    """
    provider = _meter_provider(_resource("mqflow spark stream"), environment)
    return StreamMetrics(provider), (lambda: None) if provider is None else provider.shutdown


def _has_telemetry(app: App) -> bool:
    return any(isinstance(layer, OpenTelemetry) for layer in app.middleware)


def _resource(name: str) -> Resource:
    """Return the resource with this name, unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES has another name."""
    is_named = "service.name" in OTELResourceDetector().detect().attributes
    return Resource.create({} if is_named else {"service.name": name})


def _meter_provider(resource: Resource, environment: Mapping[str, str]) -> MeterProvider | None:
    found = _exporter("metrics", environment)
    if found is None:
        return None
    # Some exporters are readers: the exporter for Prometheus waits until Prometheus asks.
    reader = found if isinstance(found, MetricReader) else PeriodicExportingMetricReader(found)
    return MeterProvider([reader], resource=resource)


def _exporter(signal: str, environment: Mapping[str, str]) -> Any:  # `Any`: spans and metrics have exporters of two types
    """Return a new exporter for "traces" or "metrics"; None if its environment variable is not set, empty or "none"."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    name = environment.get(variable) or _NO_EXPORTER  # OpenTelemetry treats an empty variable as one that is not set
    if name == _NO_EXPORTER:
        return None
    offered = entry_points(group=f"opentelemetry_{signal}_exporter")
    if name not in offered.names:
        raise ConfigurationError(
            f"{variable} names {name!r}, an exporter that no installed distribution offers; installed: "
            f"{', '.join(sorted(offered.names)) or 'none'}. Install its distribution (opentelemetry-exporter-otlp for otlp)."
        )
    return offered[name].load()()
