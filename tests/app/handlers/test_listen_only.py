"""`App.listen_only`: an application runs some of its listeners."""

import anyio
import pytest

from mqflow import App, ConfigurationError
from mqflow.testing.kit import QueueManagerKit


def shop(taken: anyio.Event) -> App:
    app = App()
    app.dead_letter_handler(queue="DEAD")

    @app.listener("ORDERS.IN")
    async def book(body: bytes) -> None:
        raise AssertionError("this listener does not run")

    @app.listener("RETURNS.IN", name="returns")
    async def take_back(body: bytes) -> None:
        taken.set()

    return app


@pytest.mark.parametrize("name", ["returns", "RETURNS.IN"])
async def test_only_the_named_listener_takes_messages(mq: QueueManagerKit, name: str) -> None:
    mq.define("ORDERS.IN")
    mq.define("RETURNS.IN")
    taken = anyio.Event()
    app = shop(taken)

    app.listen_only([name])

    async with mq.run(app):
        await mq.put("ORDERS.IN", b"1")
        await mq.put("RETURNS.IN", b"2")
        await taken.wait()
    assert (1, 0, ()) == (mq.depth("ORDERS.IN"), mq.depth("RETURNS.IN"), app.dead_letter_handlers)


def test_an_unknown_listener_is_refused_with_the_names_that_exist() -> None:
    app = shop(anyio.Event())

    with pytest.raises(
        ConfigurationError, match=r"no listener 'retuns'. Did you mean returns\? The application declares: book "
    ):
        app.listen_only(["book", "retuns"])
    assert ["book", "returns"] == [listener.name for listener in app.listeners]
