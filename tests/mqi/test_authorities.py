"""The authorities that a call needs, the profile that applies, and the authorities of one user from its records."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.mqi.authorities import Authority, AuthorityKind, Need, expanded, needed_to_open
from mqflow.mqi.authority_records import AuthorityRecord, applies, granted, is_profile, specificity
from mqflow.mqi.options import ObjectType, OpenOption

PROFILES = st.lists(st.sampled_from(["A", "B", "?", "*", "A*", "*A", "A*B", "?A*", "**"]), min_size=1, max_size=5).map(".".join)
NAMES = st.lists(st.text("AB", min_size=1, max_size=4), min_size=1, max_size=5).map(".".join)

# Rows with "profiles" are the examples of IBM, "Using OAM generic profiles".
ROWS = [
    ("ABC.?EF", "ABC.DEF", True, "profiles: one character"),
    ("AB.?D", "AB.CD", True, "profiles: one character"),
    ("AB.?D", "AB.D", False, "profiles: one character, not none"),
    ("ABC.*.JKL", "ABC.DEF.JKL", True, "profiles: one qualifier"),
    ("ABC.*.JKL", "ABC.JKL", False, "profiles: one qualifier, not none"),
    ("ABC.*.JKL", "ABC.DEF.GHI.JKL", False, "profiles: one qualifier, not two"),
    ("ABC.DE*.JKL", "ABC.DE.JKL", True, "profiles: no character"),
    ("ABC.DE*.JKL", "ABC.DEGH.JKL", True, "profiles: several characters"),
    ("**", "ABC", True, "profiles: all names"),
    ("**", "ABC.DEF.GHI", True, "profiles: all names"),
    ("**.ABC", "X.Y.ABC", True, "profiles: qualifiers at the beginning"),
    ("**.ABC", "ABC", True, "profiles: zero qualifiers"),
    ("ABC.**", "ABC", True, "profiles: zero qualifiers"),
    ("ABC.**", "ABC.DEF.GHI", True, "profiles: qualifiers at the end"),
    ("A.**.Z", "A.Z", True, "profiles: zero in the middle"),
    ("A.**.Z", "A.B.C.Z", True, "profiles: several in the middle"),
    ("A.**.A", "A", False, "one qualifier is not both ends"),
    ("AB.*", "AB", False, "the period is part of it"),
    ("ABC", "ABCD", False, "no generic name"),
    ("abc", "ABC", False, "names are case-sensitive"),
]


@pytest.mark.parametrize(
    ("profile", "name", "matches"), [pytest.param(*row[:3], id=f"{row[0]} {row[1]}: {row[3]}") for row in ROWS]
)
def test_a_profile_applies_to_the_objects_it_stands_for(profile: str, name: str, *, matches: bool) -> None:
    assert matches == applies(profile, name)


@given(profile=PROFILES.filter(is_profile), name=NAMES)
def test_any_profile_applies_where_the_same_regular_expression_matches(profile: str, name: str) -> None:
    """The oracle is a regular expression: simple, but too slow for hostile names."""
    pattern = ".".join(
        r"\0" if each == "**" else each.replace("*", "[^.]*").replace("?", "[^.]") for each in profile.split(".")
    )
    pattern = pattern.replace(".", r"\.").replace(r"[^\.]", "[^.]")
    if pattern == r"\0":
        pattern = ".*"
    pattern = pattern.replace(r"\.\0\.", r"\.(?:[^.]+\.)*").replace(r"\0\.", r"(?:[^.]+\.)*").replace(r"\.\0", r"(?:\.[^.]+)*")

    assert bool(re.fullmatch(pattern, name)) == applies(profile, name)


def test_a_profile_of_many_asterisks_is_decided_at_once() -> None:
    assert not applies("*A" * 23 + "*", "A" * 22 + "B" * 26)
    assert applies("*A" * 23 + "*", "A" * 48)


@pytest.mark.parametrize("text", ["", "A" * 49, "A**", "**.A.**", "A B", "A.'B"], ids=lambda text: text or "nothing")
def test_these_texts_are_no_profiles(text: str) -> None:
    assert not is_profile(text)


# Source: IBM, "Profile priorities": left to right; a character counts more than ?, ? more than *, * more than **.
@pytest.mark.parametrize(
    ("more", "less"),
    [("AB.C*", "AB.*"), ("AB.CD", "AB.C*"), ("AB.?D", "AB.*"), ("AB.*", "AB.**"), ("A.?", "?.B"), ("AB*D", "AB*"),
     ("**.A", "**")],
)  # fmt: skip
def test_the_more_specific_profile_is_the_first_where_they_differ(more: str, less: str) -> None:
    assert specificity(more) < specificity(less)


@given(name=NAMES, profile=PROFILES.filter(is_profile))
def test_nothing_is_more_specific_than_the_name_itself(name: str, profile: str) -> None:
    assert not applies(profile, name) or specificity(name) <= specificity(profile)


def record(
    profile: str, authorities: str, entity: str = "app", *, group: bool = False, kind: AuthorityKind = AuthorityKind.QUEUE
) -> AuthorityRecord:
    held = frozenset(Authority(word) for word in authorities.split())
    return AuthorityRecord(kind=kind, profile=profile, entity=entity, group=group, authorities=held)


@pytest.mark.parametrize(
    ("records", "held"),
    [pytest.param([], "", id="nothing is given by default"),
     pytest.param([record("AB.*", "PUT"), record("AB.C*", "GET")], "GET", id="profile priorities: the example of IBM's page"),
     pytest.param([record("AB.**", "PUT"), record("AB.CD", "")], "", id="a record of nothing takes away"),
     pytest.param([record("AB.CD", "GET", "other")], "", id="another user's"),
     pytest.param([record("AB.CD", "GET", kind=AuthorityKind.TOPIC)], "", id="another kind of object"),
     pytest.param([record("AB.CD", "GET", "app", group=True)], "", id="a group of the user's name"),
     pytest.param([record("AB.CD", "GET", "desk")], "", id="a user of the group's name"),
     pytest.param([record("AB.CD", "GET"), record("**", "PUT", "desk", group=True), record("AB.*", "INQ", "night", group=True)],
         "GET INQ PUT", id="principals and groups: the aggregate"),
     pytest.param([record("AB.CD", "GET", "nobody", group=True)], "GET", id="principals and groups: everybody is in nobody"),
     pytest.param([record("AB.CD", "GET", "strangers", group=True)], "", id="a group the user is not in")],
)  # fmt: skip
def test_the_records_grant_a_user_these_authorities(records: list[AuthorityRecord], held: str) -> None:
    found = granted(records, AuthorityKind.QUEUE, "AB.CD", user="app", groups=("desk", "night"))

    assert sorted(held.split()) == sorted(found)


# Source: IBM, "Authorizations for MQI calls", tables of MQOPEN; "Granting authority to set context"; AlternateUserId of MQOD.
@pytest.mark.parametrize(
    ("options", "needed"),
    [
        (OpenOption.INPUT_AS_Q_DEF, "GET"),
        (OpenOption.INPUT_SHARED, "GET"),
        (OpenOption.INPUT_EXCLUSIVE | OpenOption.SAVE_ALL_CONTEXT, "GET"),
        (OpenOption.BROWSE, "BROWSE"),
        (OpenOption.INQUIRE | OpenOption.FAIL_IF_QUIESCING, "INQ"),
        (OpenOption.SET, "SET"),
        (OpenOption.OUTPUT, "PUT"),
        (OpenOption.OUTPUT | OpenOption.PASS_IDENTITY_CONTEXT, "PASSID PUT"),
        (OpenOption.OUTPUT | OpenOption.PASS_ALL_CONTEXT, "PASSALL PUT"),
        (OpenOption.OUTPUT | OpenOption.SET_IDENTITY_CONTEXT, "PUT QMGR.SETID SETID"),
        (OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT, "PUT QMGR.SETALL SETALL"),
        (OpenOption.OUTPUT | OpenOption.ALTERNATE_USER_AUTHORITY, "PUT QMGR.ALTUSR"),
        (OpenOption.INPUT_SHARED | OpenOption.BROWSE | OpenOption.OUTPUT | OpenOption.INQUIRE, "BROWSE GET INQ PUT"),
    ],
    ids=repr,
)
def test_the_open_of_a_queue_needs_an_authority_for_each_use(options: OpenOption, needed: str) -> None:
    needs = needed_to_open("Q", options)

    assert needed.split() == sorted(f"{'QMGR.' if need.kind is AuthorityKind.QMGR else ''}{need.authority}" for need in needs)


def test_context_and_the_alternate_user_are_a_matter_of_the_user_that_connected() -> None:
    needs = needed_to_open("Q", OpenOption.OUTPUT | OpenOption.PASS_ALL_CONTEXT | OpenOption.ALTERNATE_USER_AUTHORITY)

    assert {Authority.PASSALL, Authority.ALTUSR} == {need.authority for need in needs if need.own}


def test_the_open_of_a_queue_manager_or_a_topic_needs_its_own_authorities() -> None:
    assert (Need(AuthorityKind.QMGR, "", Authority.INQ),) == needed_to_open("QM1", OpenOption.INQUIRE, ObjectType.Q_MGR)
    assert (Need(AuthorityKind.TOPIC, "T", Authority.PUB),) == needed_to_open("T", OpenOption.OUTPUT, ObjectType.TOPIC)


@pytest.mark.parametrize(
    ("word", "kind", "meant"),
    [
        ("NONE", AuthorityKind.QUEUE, ""),
        ("PUT", AuthorityKind.QUEUE, "PUT"),
        ("ALLMQI", AuthorityKind.QUEUE, "BROWSE GET INQ PASSALL PASSID PUT SET SETALL SETID"),
        ("ALLADM", AuthorityKind.QUEUE, "CHG CLR DLT DSP"),
        ("ALLMQI", AuthorityKind.QMGR, "ALTUSR CONNECT INQ SET SETALL SETID"),
        ("ALL", AuthorityKind.TOPIC, "CHG CLR CTRL DLT DSP PASSALL PASSID PUB RESUME SETALL SETID SUB"),
        ("CONNECT", AuthorityKind.QUEUE, None),
        ("GET", AuthorityKind.QMGR, None),
        ("WHATEVER", AuthorityKind.QUEUE, None),
    ],
)
def test_a_word_of_authadd_means_authorities_of_its_kind_of_object(word: str, kind: AuthorityKind, meant: str | None) -> None:
    found = expanded(word, kind)

    assert (None if meant is None else meant.split()) == (None if found is None else sorted(found))
