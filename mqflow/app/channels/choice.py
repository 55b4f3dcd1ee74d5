"""Chooses the channel table or the single channel with which mqflow connects to IBM MQ.

`policy.channels.sources` makes the decision. If IBM's client itself must find the channel, for example in a binary table,
mqflow chooses nothing.
"""

import os
from collections.abc import Mapping

from mqflow.app.errors import ConfigurationError
from mqflow.bindings.connect_options import ConnectOptions
from mqflow.policy.channels.client_ini import ClientConfiguration
from mqflow.policy.channels.sources import Choice, DefinedBy, Given, Origin, TableAt, choose
from mqflow.policy.channels.table import ChannelTableError

__all__ = ("readable_choice",)


def readable_choice(
    options: ConnectOptions, package: str, configuration: ClientConfiguration, environment: Mapping[str, str] | None = None
) -> Choice | None:
    """Return the table or channel that mqflow uses; None if IBM's client must find the channel.

    pymqi cannot pass a table to IBM's client, so mqflow uses the table of the URL itself. If the URL has no host and no table,
    `policy.channels.sources` chooses: MQSERVER, or a JSON table. MQCCDTURL, or MQCHLLIB and MQCHLTAB, or mqclient.ini give the
    place of the table. Raises `ConfigurationError` for an invalid MQSERVER.
    """
    if options.ccdt_url:
        return TableAt(options.ccdt_url, Origin.URL) if package == "pymqi" else None
    if options.hosts or options.binding == "local":
        return None
    try:
        choice = choose(Given(environment=os.environ if environment is None else environment, configuration=configuration))
    except ChannelTableError as error:
        raise ConfigurationError(str(error)) from error
    match choice:
        case DefinedBy():
            return choice
        case TableAt(location=location) if location.partition("?")[0].lower().endswith(".json"):
            return choice
        case _:
            return None
