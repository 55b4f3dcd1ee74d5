"""mqflow: consume IBM MQ from Python as safely as the IBM MQ classes for JMS do.

The public names. Each is loaded when it is first used, so that `import mqflow` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fast_depends import Depends

    from mqflow.app.application import App
    from mqflow.app.backout import Backout, Batch
    from mqflow.app.codecs import Codec
    from mqflow.app.consumer import Consumer
    from mqflow.app.context import Context
    from mqflow.app.errors import ConfigurationError, RequestTimeoutError
    from mqflow.app.listening import Listener, Publisher
    from mqflow.app.locate import open_queue_manager
    from mqflow.app.message import Message
    from mqflow.app.middleware import Incoming, Middleware
    from mqflow.app.publishing import Outgoing
    from mqflow.app.settings import Settings, SettingsError
    from mqflow.events import Event, Hook
    from mqflow.mqi.descriptor import MessageDescriptor
    from mqflow.mqi.errors import MQIError
    from mqflow.mqi.reason_codes import Reason
    from mqflow.policy.disposition import Behaviour, Completed, Failed, Interrupted, Outcome, Undecodable
    from mqflow.policy.outcomes import Reject, Retry, UndecodableError
    from mqflow.policy.pacing import Pace

__all__ = (
    "App",
    "Backout",
    "Batch",
    "Behaviour",
    "Codec",
    "Completed",
    "ConfigurationError",
    "Consumer",
    "Context",
    "Depends",
    "Event",
    "Failed",
    "Hook",
    "Incoming",
    "Interrupted",
    "Listener",
    "MQIError",
    "Message",
    "MessageDescriptor",
    "Middleware",
    "Outcome",
    "Outgoing",
    "Pace",
    "Publisher",
    "Reason",
    "Reject",
    "RequestTimeoutError",
    "Retry",
    "Settings",
    "SettingsError",
    "Undecodable",
    "UndecodableError",
    "open_queue_manager",
)

_HOMES = {
    "App": "mqflow.app.application",
    "Backout": "mqflow.app.backout",
    "Batch": "mqflow.app.backout",
    "Behaviour": "mqflow.policy.disposition",
    "Codec": "mqflow.app.codecs",
    "Completed": "mqflow.policy.disposition",
    "ConfigurationError": "mqflow.app.errors",
    "Consumer": "mqflow.app.consumer",
    "Context": "mqflow.app.context",
    "Depends": "fast_depends",
    "Event": "mqflow.events",
    "Failed": "mqflow.policy.disposition",
    "Hook": "mqflow.events",
    "Incoming": "mqflow.app.middleware",
    "Interrupted": "mqflow.policy.disposition",
    "Listener": "mqflow.app.listening",
    "MQIError": "mqflow.mqi.errors",
    "Message": "mqflow.app.message",
    "MessageDescriptor": "mqflow.mqi.descriptor",
    "Middleware": "mqflow.app.middleware",
    "Outcome": "mqflow.policy.disposition",
    "Outgoing": "mqflow.app.publishing",
    "Pace": "mqflow.policy.pacing",
    "Publisher": "mqflow.app.listening",
    "Reason": "mqflow.mqi.reason_codes",
    "Reject": "mqflow.policy.outcomes",
    "RequestTimeoutError": "mqflow.app.errors",
    "Retry": "mqflow.policy.outcomes",
    "Settings": "mqflow.app.settings",
    "SettingsError": "mqflow.app.settings",
    "Undecodable": "mqflow.policy.disposition",
    "UndecodableError": "mqflow.policy.outcomes",
    "open_queue_manager": "mqflow.app.locate",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'mqflow' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
