"""The APPLTAG of a connection, in 28 characters."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow import App
from mqflow.app.config.settings import Settings
from mqflow.policy.application_tag import APPLICATION_TAG_CHARS_MAX, application_tag
from mqflow.testing.kit import QueueManagerKit


@pytest.mark.parametrize(
    ("application", "owner", "tag"),
    [
        ("orders", "listener book (2)", "orders/4711/book (2)"),
        ("orders", "DLQ handler", "orders/4711/DLQ handler"),
        ("orders", "", "orders/4711"),
        ("an-application-with-a-long-name", "", "an-application-with-a-l/4711"),
        ("an-application-with-a-long-name", "listener FLIGHTS.IN.EUROPE (2)", "an-applicat/4711/.EUROPE (2)"),
        ("a", "listener FLIGHTS.IN.FROM.EUROPE.TO.ASIA (2)", "a/4711/ROM.EUROPE.TO.ASIA (2)"[:7] + "OM.EUROPE.TO.ASIA (2)"),
    ],
)
def test_a_tag_names_application_process_and_owner(application: str, owner: str, tag: str) -> None:
    assert tag == application_tag(application, 4711, owner)


@given(st.text(), st.integers(1, 2**22), st.text())
def test_no_tag_is_longer_than_mq_allows_and_each_has_the_whole_process(application: str, process: int, owner: str) -> None:
    tag = application_tag(application, process, owner)

    assert len(tag) <= APPLICATION_TAG_CHARS_MAX
    assert f"/{process}" in tag


@pytest.mark.parametrize(
    ("tagged", "expected"),
    [(True, [f"orders/{os.getpid()}/book (0)", f"orders/{os.getpid()}/book (1)"]), (False, ["orders", "orders"])],
)
async def test_display_conn_tells_the_connections_of_listeners_apart_on_request(
    mq: QueueManagerKit, *, tagged: bool, expected: list[str]
) -> None:
    mq.define("IN")
    app = App(name="orders", settings=Settings(tag_connections=tagged))

    @app.listener("IN", concurrency=2)
    async def book(body: bytes) -> None: ...

    async with mq.run(app):
        connections = mq.queue_manager.administration.objects.connections()

    assert expected == sorted(each.application for each in connections if each.application.startswith("orders"))[:2]
