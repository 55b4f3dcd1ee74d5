"""The telemetry that most tests of this folder look at."""

import pytest

from tests.otel.harness import Telemetry


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()
