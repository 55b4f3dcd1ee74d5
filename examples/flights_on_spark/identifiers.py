"""The identifiers of messages: they contain the number of the flight."""

__all__ = ("flight_number", "message_id")

_PREFIX = b"FLIGHT"


def message_id(number: int) -> bytes:
    """Return the MsgId of the flight with this number. Messages about the flight have this as CorrelId."""
    return _PREFIX + number.to_bytes(18)


def flight_number(identifier: bytes) -> int:
    """Return the number of the flight in this MsgId or CorrelId."""
    return int.from_bytes(identifier.removeprefix(_PREFIX))
