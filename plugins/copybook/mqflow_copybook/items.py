"""Builds the items of a record from the statements of a copybook: groups, tables, redefinitions. Knows no value.

A copybook that needs a feature that is not here is refused, with the name of the feature.
"""

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow_copybook.formats import Float, Format, Number, Text, picture_format, size_of
from mqflow_copybook.source import CopybookError, Statement

__all__ = ("Item", "records")

_USAGES: Final = {
    "BINARY": "COMP",
    "COMP": "COMP",
    "COMP-1": "COMP-1",
    "COMP-2": "COMP-2",
    "COMP-3": "COMP-3",
    "COMP-4": "COMP",
    "COMP-5": "COMP-5",
    "DISPLAY": "DISPLAY",
    "PACKED-DECIMAL": "COMP-3",
}
_FLOATS: Final = {"COMP-1": Float(4), "COMP-2": Float(8)}
_WITHOUT_STORAGE: Final = (66, 88)
_TOP: Final = 1
_SKIPPED: Final = frozenset({"ASCENDING", "DESCENDING", "EXTERNAL", "GLOBAL", "INDEXED", "VALUE", "VALUES"})
"""Clauses that are ignored; the words after them up to the next clause belong to them."""
_CLAUSES: Final = (
    _SKIPPED
    | _USAGES.keys()
    | {
        *("DEPENDING", "JUST", "JUSTIFIED", "LEADING", "OCCURS", "PIC", "PICTURE", "REDEFINES", "SIGN", "TRAILING", "USAGE"),
        *(
            "BIT",
            "BLANK",
            "COMP-6",
            "COMP-N",
            "COMP-X",
            "DISPLAY-1",
            "INDEX",
            "NATIONAL",
            "POINTER",
            "SYNC",
            "SYNCHRONIZED",
        ),  # refused
    }
)
_WITH_ONE_WORD: Final = {"DEPENDING": "depending", "PIC": "picture", "PICTURE": "picture", "REDEFINES": "redefines"}
_VALUE: Final = re.compile(
    r"""[A-Z]{0,2}["'].*|[+-]?[\d.]+|ALL|ZERO|ZEROE?S|SPACES?|(?:HIGH|LOW)-VALUES?|QUOTES?|NULLS?""", re.DOTALL
)


class Item(Struct, frozen=True, kw_only=True):
    """A data item: a group with children, or an elementary item with a format."""

    statement: Statement
    level: int
    #: The name in COBOL; empty for FILLER.
    name: str
    #: The name in Python: LINE-COUNT is line_count. Empty for FILLER without named items.
    key: str
    picture: str = ""
    usage: str = ""
    format: Format | None = None
    #: The items of a group in regions: the first item of a region, and then the items that redefine it.
    regions: tuple[tuple["Item", ...], ...] = ()
    #: The smallest and the largest number of occurrences; None without OCCURS.
    occurs: tuple[int, int] | None = None
    #: The key of the item that has the number of occurrences; empty for a fixed number.
    depending: str = ""
    redefines: str = ""
    sign: tuple[bool, bool] | None = None
    #: True if the item is JUSTIFIED.
    is_right: bool = False
    #: The bytes of one occurrence, with all tables in it at their largest.
    size: int = 0

    @property
    def size_of_all(self) -> int:
        """The bytes of all occurrences, at most."""
        return self.size * (self.occurs[1] if self.occurs else 1)

    @property
    def is_variable(self) -> bool:
        """Whether the item has a number of bytes that depends on the message."""
        return bool(self.depending) or any(each.is_variable for region in self.regions for each in region)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.name or "FILLER", self.picture and f"PIC {self.picture}", self.usage)))


def records(statements: Iterable[Statement], name: str) -> Sequence[Item]:
    """Return the records of a copybook. If it begins below level 01, its items are one record with this name.

    Raises `CopybookError` for a statement that is wrong or has a feature that is not here.
    """
    items = [_item(each) for each in statements if not _has_no_storage(each)]
    if not items:
        raise CopybookError(f"The copybook {name} has no data item.")
    if items[0].level != _TOP:
        top = Statement(items[0].statement.line, ("01", name))
        items = [Item(statement=top, level=_TOP, name=name, key=_key(name)), *items]
    found: list[Item] = []
    while items:
        if items[0].level != _TOP:
            raise items[0].statement.refused("the items of a record have levels from 02 to 49 below one item of level 01")
        if items[0].occurs or items[0].redefines:
            raise items[0].statement.refused("OCCURS and REDEFINES are not for level 01 here; put it on a level below")
        if len(items) == 1 or items[1].level <= _TOP:
            raise items[0].statement.refused("a record has items below it")
        found.append(_built(items, "", None, {}))
    return found


def _has_no_storage(statement: Statement) -> bool:
    return statement.words[0].isdecimal() and int(statement.words[0]) in _WITHOUT_STORAGE


def _item(statement: Statement) -> Item:
    """Return the item of a statement, without its children and without the clauses that it inherits from its group."""
    first, *words = (re.sub(r"^COMPUTATIONAL(?=$|-\w$)", "COMP", word) for word in statement.words)
    if not first.isdecimal():
        hint = "put the text of that copybook in its place" if first == "COPY" else "a level number was expected"
        raise statement.refused(f"{first} is not carried out here; {hint}")
    name = words.pop(0) if words and words[0] not in _CLAUSES else "FILLER"
    facts: dict[str, Any] = {}  # the fields of an Item
    while words:
        clause = words.pop(0)
        try:
            facts |= _clause(clause, words)
        except (IndexError, ValueError):
            raise statement.refused(f"the clause {clause} is incomplete or wrong") from None
        except LookupError as error:
            raise statement.refused(str(error)) from None
    name = "" if name == "FILLER" else name
    facts["depending"] = _key(facts.get("depending", ""))
    return Item(statement=statement, level=int(first), name=name, key=_key(name), **facts)


def _clause(clause: str, words: list[str]) -> Mapping[str, Any]:  # the fields of an Item
    """Take the words of a clause, and return its facts. Raises `LookupError` with the reason if the clause is not supported."""
    facts: Mapping[str, Any] = {}
    if clause in _SKIPPED:
        is_value = clause.startswith("VALUE")
        while words and (_VALUE.fullmatch(words[0]) if is_value else words[0] not in _CLAUSES):
            words.pop(0)
    elif clause in _WITH_ONE_WORD:
        facts = {_WITH_ONE_WORD[clause]: words.pop(0)}
    elif clause == "OCCURS":
        facts = {"occurs": _occurs(words)}
    elif clause in {"JUST", "JUSTIFIED"}:
        del words[: words[:1] == ["RIGHT"]]
        facts = {"is_right": True}
    elif clause in {"LEADING", "TRAILING"}:
        separate = words[:1] == ["SEPARATE"]
        del words[:separate]
        facts = {"sign": (clause == "LEADING", separate)}
    elif clause != "SIGN":
        facts = _usage(words.pop(0) if clause == "USAGE" else clause)
    return facts


def _occurs(words: list[str]) -> tuple[int, int]:
    least = most = int(words.pop(0))
    if words[:1] == ["TO"]:
        most = int(words[1])
        del words[:2]
    if not 0 <= least <= most or not most:
        raise ValueError
    return least, most


def _usage(word: str) -> Mapping[str, str]:
    if word not in _USAGES:
        raise LookupError(f"{word} is not supported; the USAGE can be {', '.join(sorted(_USAGES))}")
    return {"usage": _USAGES[word]}


def _built(items: list[Item], usage: str, sign: tuple[bool, bool] | None, counts: dict[str, Item]) -> Item:
    """Take an item and its children from the front of the items, and return it whole.

    `counts` has the items so far that can give a number of occurrences, by key.
    """
    item = items.pop(0)
    refused = item.statement.refused
    item = replace(item, usage=item.usage or usage, sign=item.sign or sign)
    if item.occurs and (item.occurs[0] != item.occurs[1]) != bool(item.depending):
        raise refused("OCCURS a TO b and DEPENDING ON belong together")
    if item.depending and item.depending not in counts:
        raise refused("DEPENDING ON names no earlier integer of the record that is outside of tables")
    if not items or items[0].level <= item.level:
        form = _format(item)
        made = replace(item, format=form, size=size_of(form))
        if isinstance(form, Number) and form.scale <= 0 and not made.occurs:
            counts[made.key] = made
        return made
    if item.picture:
        raise refused("an item with a picture has no items below it")
    return _group(item, items, counts)


def _group(item: Item, items: list[Item], counts: dict[str, Item]) -> Item:
    """Return the group with its children, which are taken from the front of the items."""
    regions: list[list[Item]] = []
    below = items[0].level
    within = dict(counts) if item.occurs else counts
    while items and items[0].level > item.level:
        if items[0].level != below:
            raise items[0].statement.refused(f"level {below:02} was expected, as of the item before it")
        child = _built(items, item.usage, item.sign, within)
        if not child.redefines:
            regions.append([child])
            continue
        names = [each.name for each in regions[-1]] if regions else []
        if child.redefines not in names:
            raise child.statement.refused(f"REDEFINES {child.redefines} must follow that item, on its level")
        if child.is_variable or regions[-1][0].is_variable or child.size_of_all > regions[-1][0].size_of_all:
            raise child.statement.refused(
                f"it has {child.size_of_all} bytes and {regions[-1][0].name} has {regions[-1][0].size_of_all}; "
                "a redefinition is not longer, and neither has DEPENDING ON"
            )
        regions[-1].append(child)
    return _named(
        replace(item, usage="", regions=tuple(map(tuple, regions)), size=sum(each[0].size_of_all for each in regions))
    )


def _named(group: Item) -> Item:
    """Return the group with a key for each FILLER that has named items: filler_1, filler_2. Refuses two equal keys."""
    number = 0
    keys: set[str] = set()
    regions: list[tuple[Item, ...]] = []
    for region in group.regions:
        named: list[Item] = []
        for child in region:
            if not child.name and any(each.key for part in child.regions for each in part):
                number += 1
                child = replace(child, key=f"filler_{number}")  # noqa: PLW2901 - the child with its key
            if child.key and child.key in keys:
                raise child.statement.refused(f"the group has two items with the name {child.key}; rename one")
            keys.add(child.key)
            named.append(child)
        regions.append(tuple(named))
    return replace(group, regions=tuple(regions))


def _format(item: Item) -> Format:
    """Return the format of an elementary item."""
    usage = item.usage or "DISPLAY"
    if usage in _FLOATS:
        if item.picture:
            raise item.statement.refused(f"USAGE {usage} has no picture")
        return _FLOATS[usage]
    if not item.picture:
        raise item.statement.refused("it has no PIC, and no items below it")
    leading, separate = item.sign or (False, False)
    try:
        form = picture_format(item.picture, usage, leading=leading, separate=separate)
    except ValueError as error:
        raise item.statement.refused(str(error)) from None
    if not item.is_right:
        return form
    if not isinstance(form, Text):
        raise item.statement.refused("JUSTIFIED is for text only")
    return Text(form.size, is_right=True)


def _key(name: str) -> str:
    """Return the name in Python."""
    key = name.lower().replace("-", "_")
    return f"{key}_" if keyword.iskeyword(key) else f"n{key}" if key[:1].isdigit() else key
