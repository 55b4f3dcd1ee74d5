"""Converts a body to the values of a record by name, and back: groups, tables and redefinitions, in the order of the copybook.

A name after a table with DEPENDING ON moves with the number of occurrences, as on z/OS.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mqflow_copybook.items import Item
from mqflow_copybook.values import Machine, decoded, encoded

__all__ = ("Chooser", "FieldError", "Reader", "Writer")

Chooser = str | Callable[[Mapping[str, Any]], str]
"""The key of the item that a region has, or a function that returns it for the values before the region."""

_SHOWN_BYTES: Final = 32


class FieldError(ValueError):
    """A body or a value does not fit its item. The text names the item, its place and its bytes."""

    def __init__(self, path: str, item: Item, offset: int, data: bytes, problem: str) -> None:
        #: The path of the item in the record: "lines.2.price".
        self.path: Final = path
        #: The offset of the item in the body, from 0.
        self.offset: Final = offset
        shown = f" Bytes: {data[:_SHOWN_BYTES].hex(' ')}{' ...' if data[_SHOWN_BYTES:] else ''}." if data else ""
        super().__init__(f"{path} ({item}) at offset {offset}: {problem}.{shown}")


class _Walk:
    """One walk through a record: the place in the body, and the values so far."""

    def __init__(self, at: Machine, choosers: Mapping[str, Chooser]) -> None:
        self._at: Final = at
        self._choosers: Final = choosers
        self._path: Final[list[str]] = []
        self._values: Final[dict[str, Any]] = {}  # of any group, by key: str, int, Decimal or float

    def _error(self, item: Item, offset: int, problem: object, data: bytes = b"") -> FieldError:
        return FieldError(".".join(self._path) or item.name, item, offset, data, f"{problem}".rstrip("."))

    def _count(self, item: Item, offset: int) -> int:
        """Return the number of occurrences that the values before the table give."""
        least, most = item.occurs or (1, 1)
        if item.depending and item.depending not in self._values:
            raise self._error(item, offset, f"this message has no {item.depending}, which has the number of entries")
        count = self._values[item.depending] if item.depending else most
        if not least <= count <= most:
            raise self._error(item, offset, f"{item.depending} is {count}, and the table has {least} to {most} entries")
        return int(count)

    def _chosen(self, region: Sequence[Item], offset: int) -> Item:
        """Return the item of a region that this message has."""
        choice = self._choosers[region[0].key]
        key = choice if isinstance(choice, str) else choice(self._values)
        for item in region:
            if item.key == key:
                return item
        keys = ", ".join(item.key for item in region)
        raise self._error(region[0], offset, f"redefines chose {key!r}, and the items there are {keys}")


class Reader(_Walk):
    """Reads one body."""

    def __init__(self, data: bytes, at: Machine, choosers: Mapping[str, Chooser]) -> None:
        super().__init__(at, choosers)
        self._data: Final = data
        #: The offset of the next byte to read.
        self.offset = 0

    def group(self, item: Item) -> dict[str, Any]:
        """Return the values of a group by key. Raises `FieldError`."""
        values: dict[str, Any] = {}
        for region in item.regions:
            begin, child = self.offset, region[0]
            if len(region) > 1:
                child = self._chosen(region, begin)
            self._path.append(child.key or "FILLER")
            if child.occurs:
                read: Any = []
                for number in range(self._count(child, begin)):
                    self._path.append(str(number))
                    read.append(self._one(child))
                    self._path.pop()
            else:
                read = self._one(child)
            self._path.pop()
            if child.key:
                values[child.key] = read
            if len(region) > 1:
                self._take(region[0], begin + region[0].size_of_all - self.offset)
        return values

    def _one(self, item: Item) -> Any:
        begin = self.offset
        if not item.format:
            return self.group(item)
        data = self._take(item, item.size)
        if not item.key:
            return None
        try:
            value = decoded(item.format, data, self._at)
        except UnicodeDecodeError as error:
            problem = f"the byte at {error.start} is no character of CCSID {self._at.ccsid}"
            raise self._error(item, begin, problem, data) from None
        except ValueError as error:
            raise self._error(item, begin, error, data) from None
        self._values[item.key] = value
        return value

    def _take(self, item: Item, size: int) -> bytes:
        data = self._data[self.offset : self.offset + size]
        if len(data) < size:
            problem = f"the body ends at offset {len(self._data)}, and this item ends at {self.offset + size}"
            raise self._error(item, self.offset, f"{problem}. Compare the copybook with the sender's", data)
        self.offset += size
        return data


class Writer(_Walk):
    """Writes one body."""

    def __init__(self, at: Machine, choosers: Mapping[str, Chooser]) -> None:
        super().__init__(at, choosers)
        #: The bytes so far.
        self.data: Final = bytearray()

    def group(self, item: Item, values: object) -> None:
        """Write the values of a group. Raises `FieldError`."""
        if not isinstance(values, Mapping):
            raise self._error(item, len(self.data), f"it takes a record, and got a {type(values).__name__}")
        known = {child.key for region in item.regions for child in region}
        if unknown := [str(name) for name in values if name not in known]:
            raise self._error(item, len(self.data), f"the copybook has no {', '.join(unknown)} here")
        for region in item.regions:
            begin, child = len(self.data), region[0]
            if len(region) > 1:
                child = self._given(region, values)
            self._path.append(child.key or "FILLER")
            given = values.get(child.key)
            if child.key and given is None:
                raise self._error(child, begin, "the record has no value for it")
            if child.occurs:
                self._table(child, given)
            else:
                self._one(child, given)
            self._path.pop()
            if len(region) > 1:
                self.data.extend(self._at.encode(" ") * (begin + region[0].size_of_all - len(self.data)))

    def _given(self, region: Sequence[Item], values: Mapping[Any, Any]) -> Item:
        """Return the item of a region that the values have. Raises `FieldError` if a reader chooses another item."""
        chosen = self._chosen(region, len(self.data))
        given = [item.key for item in region if values.get(item.key) is not None]
        if given != [chosen.key]:
            problem = f"this message has {chosen.key} and none of its other descriptions; given: {', '.join(given) or 'none'}"
            raise self._error(region[0], len(self.data), problem)
        return chosen

    def _table(self, item: Item, entries: object) -> None:
        if not item.key:
            entries = [None] * self._count(item, len(self.data))
        if not isinstance(entries, Sequence) or isinstance(entries, str):
            raise self._error(item, len(self.data), f"it takes a list, and got a {type(entries).__name__}")
        count = self._count(item, len(self.data))
        if len(entries) != count:
            says = f"{item.depending} is {count}" if item.depending else f"the table has {count} entries"
            raise self._error(item, len(self.data), f"{says}, and the list has {len(entries)}")
        for number, entry in enumerate(entries):
            self._path.append(str(number))
            self._one(item, entry)
            self._path.pop()

    def _one(self, item: Item, value: Any) -> None:  # a value of the application: any type
        begin = len(self.data)
        if not item.key:
            self.data.extend(self._at.encode(" ") * item.size)
        elif not item.format:
            self.group(item, value)
        else:
            try:
                self.data.extend(encoded(item.format, value, self._at))
            except UnicodeEncodeError as error:
                problem = f"CCSID {self._at.ccsid} has no U+{ord(error.object[error.start]):04X}"
                raise self._error(item, begin, problem) from None
            except (TypeError, ValueError) as error:
                raise self._error(item, begin, error) from None
            self._values[item.key] = value
