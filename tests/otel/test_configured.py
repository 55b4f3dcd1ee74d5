"""Telemetry switched on by settings."""

from pathlib import Path

import anyio
import pytest

from mqflow import App, ConfigurationError
from mqflow.app.settings import TelemetrySettings
from mqflow.otel.configured import add_telemetry
from mqflow.testing.kit import QueueManagerKit
from tests.otel import exporters

QUEUE = "SYSTEM.DEFAULT.LOCAL.QUEUE"
KEPT = {"OTEL_TRACES_EXPORTER": "kept", "OTEL_METRICS_EXPORTER": "kept"}


@pytest.fixture(autouse=True)
def installed_exporters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the exporters named "kept", as a package manager would."""
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "kept-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: kept\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(exporters.ENTRY_POINTS)
    exporters.SPANS.clear()
    exporters.METRICS.clear()


async def handled(mq: QueueManagerKit, telemetry: TelemetrySettings, environment: dict[str, str]) -> None:
    """Let an application with this telemetry handle a message, and end it."""
    app = App(name="orders")

    @app.listener(QUEUE)
    async def handle(order: str) -> None:
        assert order

    end = add_telemetry(app, telemetry, environment)
    async with mq.run(app):
        await mq.put(QUEUE, "an order")
        await anyio.sleep(1)  # of virtual time: the message is handled long before
    end()


async def test_spans_reach_the_exporter_under_the_name_of_the_application(mq: QueueManagerKit) -> None:
    await handled(mq, TelemetrySettings(traces=True), KEPT)

    [span] = exporters.SPANS[0].get_finished_spans()
    assert (f"process {QUEUE}", "orders") == (span.name, span.resource.attributes["service.name"])
    assert [] == exporters.METRICS


async def test_counts_reach_the_exporter_when_the_application_has_ended(mq: QueueManagerKit) -> None:
    await handled(mq, TelemetrySettings(metrics=True), KEPT)

    assert "messaging.client.consumed.messages" in exporters.METRICS[0].exported[-1].to_json()
    assert [] == exporters.SPANS


async def test_the_variable_for_the_name_of_the_service_is_stronger(
    mq: QueueManagerKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "booking")

    await handled(mq, TelemetrySettings(traces=True), {**KEPT, "OTEL_SERVICE_NAME": "booking"})

    [span] = exporters.SPANS[0].get_finished_spans()
    assert "booking" == span.resource.attributes["service.name"]


def test_nothing_is_added_where_both_are_off() -> None:
    app = App()

    add_telemetry(app, TelemetrySettings(), {})()

    assert ([], []) == (app.middleware, app.hooks)


def test_an_exporter_that_nobody_offers_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"exporter 'zipkin'; installed: .*console.*OTEL_TRACES_EXPORTER"):
        add_telemetry(App(), TelemetrySettings(traces=True), {"OTEL_TRACES_EXPORTER": "zipkin"})
