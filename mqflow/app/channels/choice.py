"""Which table of channels, or which one channel, leads to IBM MQ where mqflow goes through it itself.

Asks `policy.channels.sources`; says nothing where IBM's client finds the way by itself, as with its binary tables.
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
    options: ConnectOptions,
    package: str,
    configuration: ClientConfiguration,
    environment: Mapping[str, str] | None = None,
) -> Choice | None:
    """Return what mqflow reads and goes through itself; None where IBM's client does.

    That is the table of the URL for pymqi, which cannot hand one to IBM's client; and where the URL says neither hosts nor a
    table, MQSERVER, a JSON table by MQCCDTURL or MQCHLLIB and MQCHLTAB, and the same of mqclient.ini. Raises
    `ConfigurationError` for an MQSERVER that is none.
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
