"""Telemetry that the settings switch on."""

from pathlib import Path

import anyio
import pytest

from mqflow import App, ConfigurationError
from mqflow.otel import OpenTelemetry
from mqflow.otel.configuration import add_telemetry
from mqflow.testing.kit import QueueManagerKit
from tests.otel import exporters

QUEUE = "SYSTEM.DEFAULT.LOCAL.QUEUE"


@pytest.fixture(autouse=True)
def installed_exporters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the exporters with the name "kept", as a package manager does."""
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "kept-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: kept\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(exporters.ENTRY_POINTS)
    exporters.SPANS.clear()
    exporters.METRICS.clear()


def application() -> App:
    app = App(name="orders")

    @app.listener(QUEUE)
    async def handle(order: str) -> None:
        assert order

    return app


async def handled(mq: QueueManagerKit, app: App) -> None:
    """Let the application handle a message."""
    async with mq.run(app):
        await mq.put(QUEUE, "an order")
        await anyio.sleep(1)  # virtual time: the message is handled long before


async def test_spans_reach_the_exporter_under_the_name_of_the_application(mq: QueueManagerKit) -> None:
    app = application()
    export_the_rest = add_telemetry(app, {"OTEL_TRACES_EXPORTER": "kept"})

    await handled(mq, app)
    export_the_rest()

    [span] = exporters.SPANS[0].get_finished_spans()
    assert (f"process {QUEUE}", "orders") == (span.name, span.resource.attributes["service.name"])
    assert [] == exporters.METRICS


async def test_counts_reach_the_exporter_when_the_application_has_ended(mq: QueueManagerKit) -> None:
    app = application()
    export_the_rest = add_telemetry(app, {"OTEL_METRICS_EXPORTER": "kept", "OTEL_TRACES_EXPORTER": "none"})

    await handled(mq, app)
    export_the_rest()

    assert "messaging.client.consumed.messages" in exporters.METRICS[0].exported[-1].to_json()
    assert [] == exporters.SPANS


async def test_an_exporter_that_reads_the_metrics_itself_does_so(mq: QueueManagerKit) -> None:
    """The exporter with the name `prometheus` is a reader: it reads the metrics when Prometheus asks for them."""
    app = application()
    add_telemetry(app, {"OTEL_METRICS_EXPORTER": "read"})

    await handled(mq, app)

    data = exporters.READERS[-1].get_metrics_data()
    assert data is not None
    assert "messaging.client.consumed.messages" in data.to_json()


@pytest.mark.parametrize(
    ("variable", "value"), [("OTEL_SERVICE_NAME", "booking"), ("OTEL_RESOURCE_ATTRIBUTES", "service.name=booking,zone=a")]
)
async def test_the_variables_for_the_name_of_the_service_are_stronger(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    app = application()
    export_the_rest = add_telemetry(app, {"OTEL_TRACES_EXPORTER": "kept"})

    await handled(mq, app)
    export_the_rest()

    [span] = exporters.SPANS[0].get_finished_spans()
    assert "booking" == span.resource.attributes["service.name"]


@pytest.mark.parametrize("environment", [{}, {"OTEL_TRACES_EXPORTER": "", "OTEL_METRICS_EXPORTER": "none"}])
def test_without_an_exporter_in_the_variables_the_global_providers_are_used(environment: dict[str, str]) -> None:
    app = App()

    add_telemetry(app, environment)()

    assert [OpenTelemetry] == [type(layer) for layer in app.middleware]
    assert [] == app.hooks
    assert ([], []) == (exporters.SPANS, exporters.METRICS)


def test_an_application_that_brings_its_own_telemetry_gets_no_second_one() -> None:
    own = OpenTelemetry()
    app = App(middleware=[own], hooks=[own])

    add_telemetry(app, {"OTEL_TRACES_EXPORTER": "kept"})()

    assert ([own], [own]) == (app.middleware, app.hooks)


def test_an_included_application_that_brings_its_own_telemetry_gets_no_second_one() -> None:
    own = OpenTelemetry()
    app, archive = App(), App("embedded::memory:?qmgr=QM2", name="archive", middleware=[own])
    app.include_app(archive)

    add_telemetry(app, {})()

    assert ([OpenTelemetry], [own]) == ([type(layer) for layer in app.middleware], archive.middleware)


def test_an_exporter_that_is_not_installed_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"OTEL_TRACES_EXPORTER names 'zipkin'.*installed: .*console"):
        add_telemetry(App(), {"OTEL_TRACES_EXPORTER": "zipkin"})
