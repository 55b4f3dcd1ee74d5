"""The functions in which a run spends its time, in a short table that explains a missed budget.

The profiler watches only the thread that enables it.
"""

from collections.abc import Callable
from cProfile import Profile
from pathlib import Path
from types import CodeType
from typing import Final

from msgspec import Struct

__all__ = ("Hotspot", "dearest", "hotspots")

#: Functions in which a thread waits for another thread or for the disk.
_WAITS: Final = ("select.epoll", "_thread.lock")
_ROOT: Final = Path(__file__).parent.parent


class Hotspot(Struct, frozen=True):
    """A function and its own time for each message, without the functions that it calls."""

    where: str
    calls: float
    own_us: float


def hotspots(run: Callable[[Profile], object], messages: int, most: int = 8) -> list[Hotspot]:
    """Return the functions with the most own time while `run` has the profile enabled."""
    profile = Profile()
    run(profile)
    return dearest(profile, messages, most)


def dearest(profile: Profile, messages: int, most: int = 8) -> list[Hotspot]:
    """Return the functions of a profile with the most own time."""
    entries = sorted(profile.getstats(), key=lambda entry: entry.inlinetime, reverse=True)
    found = [Hotspot(_where(entry.code), entry.callcount / messages, entry.inlinetime / messages * 1e6) for entry in entries]
    return [each for each in found if not any(wait in each.where for wait in _WAITS)][:most]


def _where(code: CodeType | str) -> str:
    if isinstance(code, str):
        return code.strip("<>")
    path = Path(code.co_filename)
    ours = path.is_relative_to(_ROOT) and "site-packages" not in path.parts
    return f"{path.relative_to(_ROOT) if ours else path.name}:{code.co_firstlineno} {code.co_name}"
