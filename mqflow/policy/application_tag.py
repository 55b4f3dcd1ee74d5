"""The APPLTAG of a connection: application, process and owner of the connection, in the 28 characters that MQ has for it.

From memory: ApplName of MQCNO, APPLTAG of DISPLAY CONN and PutApplName have 28 characters, and are the same text.
"""

from typing import Final

__all__ = ("APPLICATION_TAG_CHARS_MAX", "application_tag")

APPLICATION_TAG_CHARS_MAX: Final = 28


def application_tag(application: str, process: int, owner: str) -> str:
    """Return `application/process/owner`. If that is too long, both names are cut, and each keeps at least half of the room.

    `owner` is a name for people; of "listener book (2)", the tag has "book (2)". Without an owner, the process ends the tag.
    The end of an owner's name stays, because the beginnings of queue names are often equal.
    """
    name = owner.removeprefix("listener ")
    if not name:
        room = APPLICATION_TAG_CHARS_MAX - len(f"/{process}")
        return f"{application[:room]}/{process}"
    room = APPLICATION_TAG_CHARS_MAX - len(f"/{process}/")
    of_application = min(len(application), max(room - len(name), room // 2))
    return f"{application[:of_application]}/{process}/{name[-(room - of_application) :]}"
