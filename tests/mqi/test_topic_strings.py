"""The topics that the topic string of a subscription matches. Each row names the sentence of its source."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi.topic_strings import Scheme, has_wildcards, is_topic_string, joined, literal_levels, matches

LEVELS = [
    # pattern, topic, whether it matches, source
    ("Prices/Oil", "Prices/Oil", True, "no wildcard"),
    ("Prices/Oil", "Prices/oil", False, "case matters"),
    ("USA/#", "USA/Alabama/Montgomery", True, "q005020: any number of levels"),
    ("USA/#", "USA", True, "q005020: USA/# matches USA"),
    ("USA/#", "USAF/Alabama", False, "q005020: a level is whole"),
    ("#", "anything/at/all", True, "q005020"),
    ("#/Results", "Results", True, "q005010: # in the middle or in front, none as well"),
    ("#/Results", "Sport/Tennis/Results", True, "q005010"),
    ("Sport/#/Results", "Sport/Results", True, "q005010"),
    ("Sport/#/Results", "Sport/Tennis/2026/Results", True, "q005010"),
    ("Sport/#/Results", "Sport/Tennis/Results/Old", False, "q005010"),
    ("Sport/+/Results", "Sport/Tennis/Results", True, "q005020: + is one level"),
    ("Sport/+/Results", "Sport/Results", False, "q005020: exactly one"),
    ("Sport/+/Results", "Sport//Results", True, "8.13: an empty level is a level"),
    ("+", "Sport", True, "q005020"),
    ("+", "Sport/Tennis", False, "q005020"),
    ("Sport/Ten+", "Sport/Tennis", False, "q005020: special only when alone in a level"),
    ("Sport/Ten+", "Sport/Ten+", True, "q005020: otherwise an ordinary character"),
    ("Sport/#x", "Sport/#x", True, "q005020"),
    ("/Sport", "Sport", False, "8.13: a leading / is an empty level"),
    ("+/Sport", "/Sport", True, "8.13"),
    ("Sport/#", "Sport/", True, "8.13: a trailing / is an empty level"),
    ("Sport/*", "Sport/Tennis", False, "the other scheme's wildcards are ordinary here"),
]

CHARACTERS = [
    ("Sport/*", "Sport/Tennis/Results", True, "xmscuri: * any characters, / as well"),
    ("Sport/*", "Sport/", True, "xmscuri: none as well"),
    ("Sport/*", "Sport", False, "the / is there"),
    ("S?ort", "Sport", True, "xmscuri: ? one character"),
    ("S?ort", "Sort", False, "xmscuri: exactly one"),
    ("*Tennis*", "Sport/Tennis/Results", True, "xmscuri"),
    ("50%*", "50*", True, "xmscuri: % takes the next as it is"),
    ("50%*", "50 and more", False, "xmscuri"),
    ("100%%", "100%", True, "xmscuri"),
    ("100%", "100%", True, "nothing to take: itself"),
    ("Sport/#", "Sport/Tennis", False, "the other scheme's wildcards are ordinary here"),
]


@pytest.mark.parametrize(("pattern", "topic", "expected", "source"), LEVELS, ids=str)
def test_wildcards_of_levels(pattern: str, topic: str, *, expected: bool, source: str) -> None:
    assert expected == matches(pattern, Scheme.TOPIC, topic), source


@pytest.mark.parametrize(("pattern", "topic", "expected", "source"), CHARACTERS, ids=str)
def test_wildcards_of_characters(pattern: str, topic: str, *, expected: bool, source: str) -> None:
    assert expected == matches(pattern, Scheme.CHARACTER, topic), source


@given(st.text("ab/#+", max_size=9), st.text("ab/", max_size=9))
def test_levels_match_as_the_plain_reading_says(pattern: str, topic: str) -> None:
    def read(levels: list[str], found: list[str]) -> bool:
        if not levels:
            return not found
        if levels[0] == "#":
            return any(read(levels[1:], found[taken:]) for taken in range(len(found) + 1))
        return bool(found) and levels[0] in {"+", found[0]} and read(levels[1:], found[1:])

    assert read(pattern.split("/"), topic.split("/")) == matches(pattern, Scheme.TOPIC, topic)


@given(st.text("ab/*?", max_size=9), st.text("ab/", max_size=9))
def test_characters_match_as_the_equal_regular_expression(pattern: str, topic: str) -> None:
    expression = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")

    assert bool(re.fullmatch(expression, topic)) == matches(pattern, Scheme.CHARACTER, topic)


def test_a_hostile_pattern_takes_no_longer_than_its_length_times_the_topics() -> None:
    assert not matches("/".join("#a" * 1000), Scheme.TOPIC, "/".join("a" * 1000) + "/b")


def test_topic_strings_are_joined_where_both_say_something() -> None:
    assert [joined("", "a"), joined("a", ""), joined("a", "b/c"), joined("a", "/c")] == ["a", "a", "a/b/c", "a//c"]


def test_a_text_is_a_topic_string() -> None:
    assert [is_topic_string(text) for text in ("", "a", "x" * 10_240, "x" * 10_241, "a\0")] == [False, True, True, False, False]


@pytest.mark.parametrize(
    ("pattern", "scheme", "wild", "literal"),
    [
        ("USA/#", Scheme.TOPIC, True, ("USA",)),
        ("USA/Ala#", Scheme.TOPIC, False, ("USA", "Ala#")),
        ("#", Scheme.TOPIC, True, ()),
        ("USA/Ala*", Scheme.CHARACTER, True, ("USA",)),
        ("USA/100%*", Scheme.CHARACTER, False, ("USA", "100*")),
    ],
)
def test_the_literal_levels_end_before_the_first_wildcard(
    pattern: str, scheme: Scheme, *, wild: bool, literal: tuple[str, ...]
) -> None:
    assert (wild, literal) == (has_wildcards(pattern, scheme), literal_levels(pattern, scheme))
