"""Reads the list of names that neighbouring folders may repeat. It knows no import."""

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

__all__ = ("RepeatedNames", "Repetition", "listed")


class Repetition(Struct, frozen=True, forbid_unknown_fields=True):
    """The files with one name, and the thing that all of them are about."""

    why: str
    files: list[str]


class RepeatedNames(Struct, frozen=True, forbid_unknown_fields=True):
    """The repetitions by name: of files, and of classes."""

    modules: dict[str, Repetition]
    classes: dict[str, Repetition]


@cache
def listed() -> RepeatedNames:
    """Return the list."""
    return msgspec.toml.decode(Path(__file__).with_name("repeated_names.toml").read_bytes(), type=RepeatedNames)
