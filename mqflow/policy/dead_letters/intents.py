"""The intents of the DLQ handler. An intent says what to do with one dead letter.

An event record can hold an intent, so this module imports neither rules nor headers. `actions` chooses the intent.
"""

from typing import TypeAlias

from msgspec import Struct

__all__ = ("Discard", "Ignore", "Intent", "Redirect")


class Redirect(Struct, frozen=True, tag=True):
    """Put the message to this queue (RETRY, FWD), with all its message context."""

    queue: str
    #: Empty for the local queue manager.
    queue_manager: str = ""
    keep_header: bool = False
    #: The user whose authority the put needs; None for the user who runs the handler. Empty if the message has no user: the
    #: queue manager then refuses a put that needs an authority. The handler's own authority is never used instead.
    alternate_user: str | None = None


class Discard(Struct, frozen=True, tag=True):
    """Remove the message from the queue permanently."""


class Ignore(Struct, frozen=True, tag=True):
    """Leave the message on its queue."""


Intent: TypeAlias = Redirect | Discard | Ignore
"""The action of the DLQ handler on one dead letter."""
