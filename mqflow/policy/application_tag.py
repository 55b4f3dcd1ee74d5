"""The APPLTAG of a connection: the names of the application, the process and the owner of the connection, in 28 characters.

From memory: ApplName of MQCNO, APPLTAG of DISPLAY CONN and PutApplName have 28 characters, and are the same text.
"""

from typing import Final

__all__ = ("APPLICATION_TAG_CHARS_MAX", "application_tag")

APPLICATION_TAG_CHARS_MAX: Final = 28


def application_tag(application: str, process: int, owner: str) -> str:
    """Return `application/process/owner`, in 28 characters at most.

    If the text is too long, application and owner are shortened; each keeps at least half of the room.
    `owner` tells people what uses the connection. The tag leaves out the word "listener": for "listener book (2)" it has
    "book (2)". A long owner loses its beginning, because queue names often begin alike. If `owner` is empty, the tag ends with
    the process.
    """
    name = owner.removeprefix("listener ")
    if not name:
        room = APPLICATION_TAG_CHARS_MAX - len(f"/{process}")
        return f"{application[:room]}/{process}"
    room = APPLICATION_TAG_CHARS_MAX - len(f"/{process}/")
    of_application = min(len(application), max(room - len(name), room // 2))
    return f"{application[:of_application]}/{process}/{name[-(room - of_application) :]}"
