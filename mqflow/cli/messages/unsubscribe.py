"""`mqflow unsubscribe`: ends a durable subscription, as the application that made it would."""

import click

from mqflow.cli.connection_options import connected, url_option
from mqflow.runtime.listener.subscriber import end_subscription

__all__ = ("command",)


@click.command("unsubscribe")
@click.argument("name")
@url_option
def command(name: str, url: str | None) -> None:
    """End the durable subscription NAME for good, with what waits on its managed queue.

    Not while an application holds it (2429), nor that of another user (2434). DELETE SUB of `mqflow mqsc` asks for no user.
    """
    with connected(url) as connection:
        end_subscription(connection, name)
    click.echo(f"{name} is over.")
