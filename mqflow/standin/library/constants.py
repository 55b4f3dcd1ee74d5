"""Reads the table of constants beside this file: the names and numbers of the MQI, of channels and of PCF."""

from ast import literal_eval
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

__all__ = ("Constants", "read_constants")


class Constants(Struct, frozen=True):
    """The constants, and the names of numbers."""

    #: For each header its constants.
    of_header: Mapping[str, Mapping[str, int | bytes]]
    #: For each group, for example MQRC, its numbers with their names.
    names: Mapping[str, Mapping[int, str]]


def read_constants() -> Constants:
    """Return the constants of the table. Its first lines describe its form."""
    of_header: defaultdict[str, dict[str, int | bytes]] = defaultdict(dict)
    names: defaultdict[str, dict[int, str]] = defaultdict(dict)
    header = group = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="ascii").splitlines():
        if line.startswith("["):
            header, group = line.strip("[]").split()
        elif not line.startswith("#"):
            for item in line.split():
                short, text = item.lstrip("~").split("=", 1)
                name = short[1:] if short.startswith("/") else f"{group}_{short}"
                value: int | bytes = literal_eval(f"b{text}") if text.startswith('"') else int(text)
                of_header[header][name] = value
                if isinstance(value, int) and not item.startswith("~"):
                    names[group][_as_mqlong(value)] = name
    return Constants(of_header, names)


def _as_mqlong(value: int) -> int:
    """Return the number that a C program has in an MQLONG: a mask of 32 bits is negative there."""
    return (value + 2**31) % 2**32 - 2**31
