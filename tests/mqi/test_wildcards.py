"""Wildcards: they match by the definition, and no pattern takes long."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi.wildcards import Wild, fits, pattern_of

Parts = Sequence[str | Wild]


def by_definition(parts: Parts, found: str) -> bool:
    if not parts:
        return not found
    first, rest = parts[0], parts[1:]
    if first is Wild.MANY:
        return any(by_definition(rest, found[end:]) for end in range(len(found) + 1))
    return bool(found) and (first is Wild.ONE or first == found[0]) and by_definition(rest, found[1:])


@given(st.lists(st.sampled_from(["a", "b", Wild.MANY, Wild.ONE]), max_size=8), st.text(alphabet="abc", max_size=9))
def test_a_pattern_matches_what_the_definition_matches(parts: Parts, found: str) -> None:
    assert by_definition(parts, found) == fits(pattern_of(parts), found)


@given(st.lists(st.sampled_from(["a", "b", Wild.MANY, Wild.ONE]), max_size=80), st.data())
def test_a_pattern_longer_than_a_machine_word_matches_each_text_that_it_describes(parts: Parts, data: st.DataObject) -> None:
    text = "".join(
        data.draw(st.text(alphabet="ab", max_size=3)) if part is Wild.MANY else "b" if part is Wild.ONE else str(part)
        for part in parts
    )

    assert fits(pattern_of(parts), text)


class Counted(str):
    """An element that counts how often it is looked up."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        type(self).looks += 1
        return super().__hash__()

    __eq__ = str.__eq__


@pytest.mark.parametrize(
    "parts",
    [
        [*[Wild.MANY, "a"] * 5_000, "b"],
        [Wild.MANY, *["a"] * 10_000, "b"],
        [*[Wild.MANY, Wild.ONE] * 5_000, "b"],
        [Wild.MANY, *["a", Wild.ONE] * 5_000, "b"],
    ],
    ids=["wildcards everywhere", "one long literal", "single wildcards", "a long part with single wildcards"],
)
def test_a_hostile_pattern_looks_at_each_of_ten_thousand_elements_once(parts: Parts) -> None:
    Counted.looks = 0

    assert not fits(pattern_of(parts), [Counted("a")] * 10_000)
    assert 10_000 == Counted.looks
