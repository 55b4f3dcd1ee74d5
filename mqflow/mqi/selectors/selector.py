"""Message selectors: an SQL92 condition on the properties of a message, compiled once and evaluated for each message.

This module is pure. A property that the message lacks is `NULL`, and a comparison with NULL is unknown. A message is selected
only if the condition is true. Values of different types are neither equal nor unequal. Source: IBM q023010 (syntax), q022990
(use).
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import add, eq, ge, gt, le, lt, mul, ne, sub, truediv
from typing import Final

from mqflow.mqi.selectors.lexer import SelectorError, Word, WordKind, words_of
from mqflow.mqi.wildcards import Pattern, Wild, characters_of, fits, pattern_of

__all__ = ("STORED_DEPTH_MAX", "Lookup", "Selector", "SelectorError", "Value", "compile_selector")

Value = str | bytes | int | float | bool | None
"""The value of a property or of a part of a selector; None for unknown."""

Lookup = Callable[[str], Value]
"""The value of a property by name."""

Selector = Callable[[Lookup], bool]

_Part = Callable[[Lookup], Value]
# Each level needs up to 11 nested calls: 24 levels need about a quarter of the stack that Python allows.
_DEPTH_MAX: Final = 24
STORED_DEPTH_MAX: Final = 64
"""The depth of a stored selector. It is higher than for new selectors, because earlier versions stored deeper ones."""
_LIKE: Final = {"%": Wild.MANY, "_": Wild.ONE}
_COMPARISONS: Final = {"=": eq, "<>": ne, "<": lt, ">": gt, "<=": le, ">=": ge}
_ARITHMETIC: Final = {"+": add, "-": sub, "*": mul, "/": truediv}


@lru_cache(maxsize=1024)
def compile_selector(text: str, depth_max: int = _DEPTH_MAX) -> Selector:
    """Return a function that tests whether the properties of a message satisfy the selector.

    Raises `SelectorError` with the place of the first mistake. A selector nested deeper than `depth_max` is a mistake too.
    """
    parser = _Parser(words_of(text), depth_max)
    condition = parser.condition()
    parser.expect_end()
    return lambda lookup: condition(lookup) is True


class _Parser:
    """A recursive-descent parser: a method for each level of precedence, and a limit on the depth."""

    def __init__(self, words: list[Word], depth_max: int) -> None:
        self._words = words
        self._depth_max = depth_max
        self._at = 0
        self._depth = 0

    def condition(self) -> _Part:
        """Parse OR, and the operators of higher precedence."""
        self._depth += 1
        if self._depth > self._depth_max:
            raise SelectorError(f"nested more than {self._depth_max} deep", self._word.position)
        parts = [self._conjunction()]
        while self._accept("OR"):
            parts.append(self._conjunction())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else lambda lookup: _any(part(lookup) for part in parts)

    def expect_end(self) -> None:
        """Refuse text behind the condition."""
        if self._word.kind is not WordKind.END:
            raise self._unexpected("AND, OR or the end")

    @property
    def _word(self) -> Word:
        return self._words[self._at]

    def _conjunction(self) -> _Part:
        parts = [self._negation()]
        while self._accept("AND"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else lambda lookup: _all(part(lookup) for part in parts)

    def _negation(self) -> _Part:
        negations = 0
        while self._accept("NOT"):
            negations += 1
        part = self._comparison()
        return (lambda lookup: _not(part(lookup))) if negations % 2 else part

    def _comparison(self) -> _Part:
        left = self._sum()
        operator = self._word
        if operator.kind is WordKind.SYMBOL and operator.text in _COMPARISONS:
            self._at += 1
            right = self._sum()
            return lambda lookup: _compared(operator.text, left(lookup), right(lookup))
        if self._accept("IS"):
            wanted = not self._accept("NOT")
            self._expect("NULL")
            return lambda lookup: (left(lookup) is None) is wanted
        negated = self._accept("NOT")
        test = self._membership(left)
        if test is None:
            if negated:
                raise self._unexpected("BETWEEN, IN or LIKE")
            return left
        return (lambda lookup: _not(test(lookup))) if negated else test

    def _membership(self, left: _Part) -> _Part | None:
        if self._accept("BETWEEN"):
            low = self._sum()
            self._expect("AND")
            high = self._sum()
            return lambda lookup: _all(
                (_compared(">=", left(lookup), low(lookup)), _compared("<=", left(lookup), high(lookup)))
            )
        if self._accept("IN"):
            values = self._list()
            return lambda lookup: None if (value := left(lookup)) is None else value in values
        if self._accept("LIKE"):
            pattern = self._pattern()
            return lambda lookup: fits(pattern, value) if isinstance(value := left(lookup), str) else None
        return None

    def _list(self) -> frozenset[str]:
        self._expect("(")
        values = [self._string()]
        while self._accept(","):
            values.append(self._string())
        self._expect(")")
        return frozenset(values)

    def _pattern(self) -> Pattern:
        text = self._string()
        escape = ""
        if self._accept("ESCAPE"):
            position = self._word.position
            escape = self._string()
            if len(escape) != 1:
                raise SelectorError("ESCAPE takes one character", position)
        return pattern_of(characters_of(text, _LIKE, escape))

    def _sum(self) -> _Part:
        return self._chain(self._product, "+-")

    def _product(self) -> _Part:
        return self._chain(self._signed, "*/")

    def _chain(self, operand: Callable[[], _Part], operators: str) -> _Part:
        """Parse operands with these operators between them; the evaluation is a loop, so any number of operands is safe."""
        first, rest = operand(), []
        while (word := self._word).kind is WordKind.SYMBOL and word.text in operators:
            self._at += 1
            rest.append((word.text, operand()))
        return _calculation(first, tuple(rest)) if rest else first

    def _signed(self) -> _Part:
        minuses = signs = 0
        while self._word.kind is WordKind.SYMBOL and self._word.text in {"+", "-"}:
            minuses += self._word.text == "-"
            signs += 1
            self._at += 1
        part = self._primary()
        return _calculation(lambda _: 0, (("-" if minuses % 2 else "+", part),)) if signs else part

    def _primary(self) -> _Part:
        word = self._word
        if self._accept("("):
            inner = self.condition()
            self._expect(")")
            return inner
        self._at += 1
        if word.kind is WordKind.LITERAL:
            return lambda _: word.value
        if word.kind is WordKind.NAME:
            return lambda lookup: lookup(word.text)
        self._at -= 1
        raise self._unexpected("a property, a value or '('")

    def _string(self) -> str:
        word = self._word
        if not isinstance(word.value, str):
            raise self._unexpected("a string in single quotes")
        self._at += 1
        return word.value

    def _accept(self, text: str) -> bool:
        found = self._word.text == text and self._word.kind in {WordKind.KEYWORD, WordKind.SYMBOL}
        self._at += found
        return found

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._unexpected(text)

    def _unexpected(self, wanted: str) -> SelectorError:
        return SelectorError(f"{wanted} is expected here, not {self._word.text or 'the end'}", self._word.position)


def _all(values: Iterable[Value]) -> Value:
    unknown = False
    for value in values:
        if value is False:
            return False
        unknown = unknown or value is not True
    return None if unknown else True


def _any(values: Iterable[Value]) -> Value:
    unknown = False
    for value in values:
        if value is True:
            return True
        unknown = unknown or value is not False
    return None if unknown else False


def _not(value: Value) -> Value:
    return not value if isinstance(value, bool) else None


def _compared(operator: str, left: Value, right: Value) -> Value:
    if left is None or right is None:
        return None
    if _is_number(left) and _is_number(right):
        return bool(_COMPARISONS[operator](left, right))
    # Text, bytes and booleans can only be equal or unequal; a comparison of different types is false.
    return type(left) is type(right) and operator in {"=", "<>"} and bool(_COMPARISONS[operator](left, right))


def _calculation(first: _Part, rest: tuple[tuple[str, _Part], ...]) -> _Part:
    def calculated(lookup: Lookup) -> Value:
        value = first(lookup)
        for operator, part in rest:
            value = _calculated(operator, value, part(lookup))
        return value

    return calculated


def _calculated(operator: str, first: Value, second: Value) -> Value:
    if not (_is_number(first) and _is_number(second)):
        return None
    try:
        value = _ARITHMETIC[operator](first, second)
    except (ZeroDivisionError, OverflowError):
        return None
    return value if isinstance(value, int | float) else None


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
