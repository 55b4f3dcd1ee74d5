"""mqflow: consume IBM MQ from Python as safely as the IBM MQ classes for JMS do.

This module has the public names. The first use of a name loads the module behind it, so that `import mqflow` is fast.
"""

import gc
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fast_depends import Depends

    from mqflow.app.application import App
    from mqflow.app.channels.location import open_queue_manager
    from mqflow.app.config.settings import Settings, SettingsError
    from mqflow.app.errors import ConfigurationError, RequestFailedError, RequestTimeoutError
    from mqflow.app.handlers.backout_declaration import Backout, Batch
    from mqflow.app.handlers.codecs import Codec
    from mqflow.app.handlers.consumer import Consumer
    from mqflow.app.handlers.context import Context
    from mqflow.app.handlers.listener_declaration import Listener, Publisher
    from mqflow.app.handlers.message import Message
    from mqflow.app.handlers.middleware import Incoming, Middleware
    from mqflow.app.handlers.outgoing_message import Outgoing
    from mqflow.app.handlers.parameter_marks import Header, Property
    from mqflow.app.router import Router
    from mqflow.app.schedules import Firing
    from mqflow.events import Event, Hook
    from mqflow.mqi.descriptor import MessageDescriptor
    from mqflow.mqi.errors import MQIError
    from mqflow.mqi.reason_codes import Reason
    from mqflow.policy.circuit_breaker import CircuitBreaker
    from mqflow.policy.poison.disposition import Behaviour, Completed, Failed, Interrupted, Outcome, Undecodable
    from mqflow.policy.poison.outcomes import Reject, Retry, UndecodableError
    from mqflow.policy.poison.redelivery_delay import Pace
    from mqflow.policy.rate_limit import RateLimit

__all__ = (
    "App", "Backout", "Batch", "Behaviour", "CircuitBreaker", "Codec", "Completed", "ConfigurationError", "Consumer",
    "Context", "Depends", "Event", "Failed", "Firing", "Header", "Hook", "Incoming", "Interrupted", "Listener", "MQIError",
    "Message", "MessageDescriptor", "Middleware", "Outcome", "Outgoing", "Pace", "Property", "Publisher", "RateLimit",
    "Reason", "Reject", "RequestFailedError", "RequestTimeoutError", "Retry", "Router", "Settings", "SettingsError",
    "Undecodable", "UndecodableError", "open_queue_manager",
)  # fmt: skip

_HOMES = {
    name: home
    for home, names in {
        "fast_depends": "Depends",
        "mqflow.app.application": "App",
        "mqflow.app.channels.location": "open_queue_manager",
        "mqflow.app.config.settings": "Settings SettingsError",
        "mqflow.app.errors": "ConfigurationError RequestFailedError RequestTimeoutError",
        "mqflow.app.handlers.backout_declaration": "Backout Batch",
        "mqflow.app.handlers.codecs": "Codec",
        "mqflow.app.handlers.consumer": "Consumer",
        "mqflow.app.handlers.context": "Context",
        "mqflow.app.handlers.listener_declaration": "Listener Publisher",
        "mqflow.app.handlers.message": "Message",
        "mqflow.app.handlers.middleware": "Incoming Middleware",
        "mqflow.app.handlers.outgoing_message": "Outgoing",
        "mqflow.app.handlers.parameter_marks": "Header Property",
        "mqflow.app.router": "Router",
        "mqflow.app.schedules": "Firing",
        "mqflow.events": "Event Hook",
        "mqflow.mqi.descriptor": "MessageDescriptor",
        "mqflow.mqi.errors": "MQIError",
        "mqflow.mqi.reason_codes": "Reason",
        "mqflow.policy.circuit_breaker": "CircuitBreaker",
        "mqflow.policy.poison.disposition": "Behaviour Completed Failed Interrupted Outcome Undecodable",
        "mqflow.policy.poison.outcomes": "Reject Retry UndecodableError",
        "mqflow.policy.poison.redelivery_delay": "Pace",
        "mqflow.policy.rate_limit": "RateLimit",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:  # an attribute of any type; the imports above give type checkers the types
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'mqflow' has no attribute {name!r}")
    collects = gc.isenabled()
    gc.disable()  # what an import makes stays, and collections would take a tenth of its time
    try:
        value = getattr(import_module(home), name)  # the name is one of `_HOMES`; its module is imported at the first use
    finally:
        if collects:
            gc.enable()
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
