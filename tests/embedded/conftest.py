"""Runs a test on each durable store."""

import pytest

from tests.embedded.storage.stored_messages import STORES


@pytest.fixture(params=STORES)
def each_store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQFLOW_TEST_STORE", request.param)
