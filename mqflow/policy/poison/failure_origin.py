"""The origin of a failure: the exception in memory, and as a text the innermost frame of the application.

This module uses the file names of frames; it reads no file.
"""

import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import Final

from msgspec import UNSET, UnsetType

__all__ = ("FRAME_CHARS_MAX", "Raised", "calling_frame", "first_of_application", "frame_in", "raised_by")

FRAME_CHARS_MAX: Final = 200
"""The largest number of characters of a frame. The text goes into headers, logs and the decision ledger."""

_MQFLOW: Final = PurePath(__file__).parents[2]
_PYTHON: Final = PurePath(traceback.__file__).parent
_INSTALLED: Final = ("site-packages", "dist-packages")
#: Installed packages whose functions call, or are called by, the application. They are not part of the application.
_BETWEEN: Final = frozenset({"anyio", "fast_depends", "msgspec", "opentelemetry", "outcome", "pydantic", "trio"})


@dataclass(frozen=True, eq=False, repr=False)
class Raised:
    """The origin of a failure. A copy, or an origin read from a file, has only the `frame` and no exception.

    Every origin equals every other origin, and also a missing origin. So outcomes that differ only in their origin are equal.
    """

    __slots__ = ("_exception", "frame")

    #: The innermost frame of the application: `file:line in function`; empty if the exception has no such frame.
    frame: str

    def __init__(self, frame: str = "", exception: BaseException | None = None) -> None:
        object.__setattr__(self, "frame", frame)
        object.__setattr__(self, "_exception", exception)

    @property
    def exception(self) -> BaseException | None:
        """The exception with its traceback; None in a copy, and in a record that was read from a file."""
        exception: BaseException | None = getattr(self, "_exception", None)  # msgspec decodes without `__init__`
        return exception

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Raised | UnsetType)

    def __hash__(self) -> int:
        return hash(UNSET)

    def __repr__(self) -> str:
        return f"Raised({self.frame!r}, {self.exception!r})"

    def __reduce__(self) -> tuple[type["Raised"], tuple[str]]:
        return Raised, (self.frame,)


def raised_by(error: BaseException) -> Raised:
    """Return the origin of a failure that this exception caused. In a group, the first exception with a frame counts."""
    return Raised(_frame_of(error), error)


def calling_frame() -> str:
    """Return the innermost frame of the application on this thread's stack, as `raised_by` does; empty without such a frame."""
    caller = sys._getframe(1)  # noqa: SLF001 - without it, the frame where `walk_stack` starts depends on the version of Python
    stack = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in traceback.walk_stack(caller)]
    return frame_in(stack[::-1])


def frame_in(frames: Sequence[tuple[str, int, str]]) -> str:
    """Return the innermost frame of the application among these frames, as `raised_by` does; empty without such a frame.

    Each frame is a file, a line and a function. The outermost frame comes first.
    """
    return _written(*own[-1]) if (own := _of_application(frames)) else ""


def first_of_application(frames: Sequence[tuple[str, int, str]]) -> int | None:
    """Return the index of the outermost frame of the application (see `frame_in`); None without such a frame."""
    return frames.index(own[0]) if (own := _of_application(frames)) else None


def _frame_of(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            if frame := _frame_of(part):
                return frame
    frames = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in traceback.walk_tb(error.__traceback__)]
    return frame_in(frames)


_Frame = tuple[str, int, str]


def _of_application(frames: Sequence[_Frame]) -> Sequence[_Frame]:
    """Return the frames that are outside of mqflow, Python and installed packages.

    If there is no such frame, the application is itself an installed package: the first package that mqflow calls.
    """
    own = [frame for frame in frames if not _is_of_mqflow_or_python(frame[0])]
    if outside := [frame for frame in own if not _package(frame[0])]:
        return outside
    first = next((package for frame in own if (package := _package(frame[0])) not in _BETWEEN), None)
    return [frame for frame in own if _package(frame[0]) == first]


@lru_cache(maxsize=1_024)
def _is_of_mqflow_or_python(file: str) -> bool:
    path = PurePath(file)
    return path.is_relative_to(_MQFLOW) or file.startswith("<frozen ") or (path.is_relative_to(_PYTHON) and not _package(file))


@lru_cache(maxsize=1_024)
def _package(file: str) -> str:
    """Return the name of the installed package that has this file; empty if no installed package has it."""
    parts = PurePath(file).parts
    at = next((number for number, part in enumerate(parts) if part in _INSTALLED), len(parts))
    return PurePath(parts[at + 1]).stem if at + 1 < len(parts) else ""


def _written(file: str, line: int, function: str) -> str:
    """Return the frame as text, with only the last folder of the file: a whole path can be private, and can be too long."""
    short = "/".join(PurePath(file).parts[-2:])
    return f"{short}:{line} in {function}".encode(errors="backslashreplace").decode()[:FRAME_CHARS_MAX]
