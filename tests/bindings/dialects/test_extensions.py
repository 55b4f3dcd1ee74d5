"""The calls of the C extensions of ibmmq and pymqi, argument by argument, and what is made of their answers.

Loads no package: an extension here records its calls. `tests.bindings.test_traps` runs the real ones.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.bindings.connect_options import ClientPackageError, ConnectOptions
from mqflow.bindings.dialects import ibmmq, pymqi
from mqflow.bindings.mqcno import Prepared
from mqflow.bindings.structures import MQCNO, MQCSP
from mqflow.mqi import c_structures
from mqflow.mqi.reason_codes import Reason
from tests.bindings.dialects.recorder import told

VERBS = ("MQCONNX", "MQINQ", "MQSET", "MQDISC", "MQOPEN", "MQCLOSE", "MQPUT", "MQPUT1", "MQGET", "MQCMIT", "MQBACK", "MQSUB",
         "MQSUBRQ")  # fmt: skip
OK, NOT_FOR_TYPE, REFUSED = (0, 0), (1, Reason.SELECTOR_NOT_FOR_TYPE), (2, Reason.NOT_AUTHORIZED)
NEEDED = {"cno": 6, "cd": 11, "od": 4, "gmo": 4, "pmo": 3, "sco": 5}


class Extension(SimpleNamespace):
    """A C extension whose calls return their name, unless a test gives another answer."""

    def __init__(self, **answers: Any) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []
        for verb in VERBS:
            setattr(self, verb, self._recording(verb, answers.get(verb, verb)))

    def _recording(self, verb: str, answer: Any) -> Callable[..., Any]:
        def record(*arguments: Any) -> Any:
            self.calls.append((verb, *arguments))
            return answer(*arguments) if callable(answer) else answer

        return record


def of_pymqi(extension: Extension, levels: tuple[str, ...] = ("6.0", "7.0", "9.4")) -> Any:
    extension.__mqlevels__ = levels
    package: Any = SimpleNamespace(pymqe=extension)
    return pymqi.dialect(package)


def of_ibmmq(extension: Extension, level: str = "940", **versions: Any) -> Any:
    extension.__strucversions__ = NEEDED | versions
    package: Any = SimpleNamespace(ibmmqc=extension, __cmdlevel__=level)
    return ibmmq.dialect(package)


@pytest.mark.parametrize(("make", "name", "built_for"), [(of_pymqi, "pymqi", "9.4"), (of_ibmmq, "ibmmq", "9.4.0")])
def test_each_call_is_that_of_the_extension(make: Callable[[Extension], Any], name: str, built_for: str) -> None:
    calls = {"disconnect": "MQDISC", "open": "MQOPEN", "close": "MQCLOSE", "put": "MQPUT", "put1": "MQPUT1", "get": "MQGET",
             "subscribe": "MQSUB", "commit": "MQCMIT", "backout": "MQBACK"}  # fmt: skip
    dialect = make(Extension())

    assert list(calls.values()) == [getattr(dialect, call)() for call in calls]  # by name: a table of all calls
    assert (name, built_for) == (dialect.name, dialect.built_for)


@pytest.mark.parametrize("name", NEEDED)
def test_an_ibmmq_without_a_structure_s_version_is_too_old(name: str) -> None:
    of_ibmmq(Extension(), "940", **{name: NEEDED[name]})

    for wrong in (NEEDED[name] - 1, 1):
        with pytest.raises(ClientPackageError) as raised:
            of_ibmmq(Extension(), "940", **{name: wrong})
        assert str(raised.value).startswith(
            f"This ibmmq was built for an IBM MQ client that is too old (MQ{name.upper()}). Install its wheel"
        )


def test_a_structure_that_an_ibmmq_does_not_name_is_of_version_1() -> None:
    extension = Extension()
    extension.__strucversions__ = {}
    package: Any = SimpleNamespace(ibmmqc=extension, __cmdlevel__="940")

    with pytest.raises(ClientPackageError, match=r"too old \(MQCNO, MQCD, MQOD, MQGMO, MQPMO, MQSCO\)"):
        ibmmq.dialect(package)


@pytest.mark.parametrize(("level", "release"), [("940", "9.4.0"), ("1001", "10.0.1"), ("9.4", "9.4"), ("", "")])
def test_the_command_level_of_ibmmq_as_a_release(level: str, release: str) -> None:
    assert release == of_ibmmq(Extension(), level).built_for


def test_a_pymqi_needs_the_level_7_0() -> None:
    with pytest.raises(ClientPackageError, match=r"This pymqi was built for IBM MQ 5.3, 6.0, which is too old"):
        of_pymqi(Extension(), ("5.3", "6.0"))
    assert "7.0" == of_pymqi(Extension(), ("7.0",)).built_for


def secret() -> str:
    return "a.b.c"


@pytest.mark.parametrize(
    ("dialect", "fields", "sentence"),
    [
        (of_pymqi(Extension()), {}, None),
        (of_pymqi(Extension()), {"ccdt_url": "file:///x"}, "pymqi cannot hand a CCDT to the client. Use ibmmq://"),
        (of_pymqi(Extension()), {"token": secret}, "pymqi cannot hand a token to the client: use ibmmq://"),
        (of_ibmmq(Extension()), {"ccdt_url": "file:///x"}, None),
        (of_ibmmq(Extension(), csp=3), {"token": secret}, None),
        (of_ibmmq(Extension(), csp=2), {"token": secret}, "This ibmmq was built for a client that knows no tokens"),
        (of_ibmmq(Extension()), {"token": secret}, "This ibmmq was built for a client that knows no tokens"),
    ],
)
def test_an_option_that_a_package_cannot_hand_over_is_refused(dialect: Any, fields: Any, sentence: str | None) -> None:
    if sentence is None:
        dialect.check(ConnectOptions(**fields))
    else:
        with pytest.raises(ClientPackageError) as raised:
            dialect.check(ConnectOptions(**fields))
        assert str(raised.value).startswith(sentence)


def connecting(**fields: Any) -> Prepared:
    return Prepared(ConnectOptions(queue_manager="QM1", **fields), "orders")


def test_pymqi_connects_with_user_and_password_or_with_neither() -> None:
    extension = Extension()
    dialect = of_pymqi(extension)
    plain, named = connecting(), connecting(channel="C", user="app", key_repository="/keys")

    assert ["MQCONNX", "MQCONNX"] == [dialect.connect(plain), dialect.connect(named)]

    assert [
        ("MQCONNX", b"QM1".ljust(48), 0x0200_0080, None, {}),
        ("MQCONNX", b"QM1".ljust(48), 0x0200_0880, named.channel, {"user": b"app", "password": b""}, named.tls),
    ] == extension.calls


@pytest.mark.parametrize(("built_for", "stated"), [(6, 6), (7, 7), (8, 7)])
def test_ibmmq_connects_with_the_newest_mqcno_that_it_was_built_for(built_for: int, stated: int) -> None:
    found: list[object] = []

    def answer(name: bytes, cno: bytes, *rest: object) -> tuple[int, int, int]:
        found.extend((name, MQCNO.number(cno, "Version"), told(MQCNO, c_structures.MQCNO, cno), *rest))
        return 5, 0, 0

    wanted = connecting(ccdt_url="file:///x", certificate_label="app")

    assert (5, 0, 0) == of_ibmmq(Extension(MQCONNX=answer), cno=built_for).connect(wanted)

    fields = {"Options": 0x0200_0880, "CCDTUrl": b"file:///x", "CCDTUrlLength": 9, "ApplName": b"orders"}
    assert [b"QM1".ljust(48), stated, fields, None, None, wanted.tls, None] == found


def hunter2() -> str:
    return "hunter2"


@pytest.mark.parametrize(
    ("fields", "version", "expected"),
    [
        (
            {"user": "app", "password": hunter2},
            1,
            {"AuthenticationType": 1, "CSPUserId": b"app", "CSPUserIdLength": 3, "CSPPassword": b"hunter2",
             "CSPPasswordLength": 7},
        ),
        ({"user": "app"}, 1, {"AuthenticationType": 1, "CSPUserId": b"app", "CSPUserIdLength": 3}),
        ({"user": "app", "token": secret}, 3, {"AuthenticationType": 2, "Token": b"a.b.c", "TokenLength": 5}),
    ],
)  # fmt: skip
def test_ibmmq_hands_a_token_or_user_and_password_over(fields: Any, version: int, expected: dict[str, object]) -> None:
    found: list[object] = []

    def answer(_name: bytes, _cno: bytes, _cd: bytes, csp: bytes, *_: object) -> None:
        found.extend((MQCSP.number(csp, "Version"), told(MQCSP, c_structures.MQCSP, csp)))

    of_ibmmq(Extension(MQCONNX=answer)).connect(connecting(**fields))

    assert [version, expected] == [found[0], {name: said for name, said in dict(found[1]).items() if name != "Version"}]  # type: ignore[call-overload]


def test_ibmmq_inquires_all_at_once() -> None:
    extension = Extension(MQINQ=([3, 4], b"ORDERS".ljust(48) + b"text".ljust(64), *OK))

    answer = of_ibmmq(extension).inquire(5, 7, (20, 2016, 21, 2013))

    assert ({20: 3, 21: 4, 2016: b"ORDERS".ljust(48), 2013: b"text".ljust(64)}, 0, 0) == answer
    assert [("MQINQ", 5, 7, [20, 2016, 21, 2013], [], 2, 2, 112)] == extension.calls


def test_ibmmq_inquires_one_by_one_after_a_warning() -> None:
    """With a warning, the extension drops the numbers."""
    one = {20: ([], b"", *NOT_FOR_TYPE), 2016: ([], b"ORDERS".ljust(48), *OK), 9: ([1], b"", *OK)}
    extension = Extension(MQINQ=lambda _c, _o, asked, *_: one[asked[0]] if len(asked) == 1 else ([], b"", *NOT_FOR_TYPE))

    answer = of_ibmmq(extension).inquire(5, 7, (20, 2016, 9))

    assert ({20: -1, 2016: b"ORDERS".ljust(48), 9: 1}, *NOT_FOR_TYPE) == answer
    assert [(5, 7, [20, 2016, 9]), (5, 7, [20]), (5, 7, [2016]), (5, 7, [9])] == [call[1:4] for call in extension.calls]


@pytest.mark.parametrize(
    ("selectors", "answers", "expected", "calls"),
    [
        ((20,), [([], b"", *NOT_FOR_TYPE)], ({20: -1}, *NOT_FOR_TYPE), 1),
        ((20, 9), [([], b"", *REFUSED)], ({20: -1, 9: -1}, *REFUSED), 1),
        ((20, 9), [([], b"", *NOT_FOR_TYPE), ([3], b"", *OK), ([], b"", *REFUSED)], ({}, *REFUSED), 3),
    ],
    ids=["one selector", "all refused", "one of them refused"],
)
def test_ibmmq_inquires_no_more_than_it_must(selectors: Any, answers: Any, expected: Any, calls: int) -> None:
    extension = Extension(MQINQ=lambda *_: answers.pop(0))

    assert (expected, calls) == (of_ibmmq(extension).inquire(5, 7, selectors), len(extension.calls))


def test_ibmmq_sets_all_at_once() -> None:
    extension = Extension(MQSET=REFUSED)

    assert REFUSED == of_ibmmq(extension).set(5, 7, {9: 1, 2023: b"data", 24: 0, 2024: b"more"})
    assert [("MQSET", 5, 7, [9, 2023, 24, 2024], [1, 0], b"datamore")] == extension.calls


def test_pymqi_inquires_one_after_the_other() -> None:
    one = {
        2001: (b"*" * 256, *NOT_FOR_TYPE), 9: (1, *OK), 2016: (b"ORDERS".ljust(60), *OK), 20: (0, *NOT_FOR_TYPE),
        2013: (b"*" * 99, *NOT_FOR_TYPE), 10: (0, *OK),
    }  # fmt: skip
    extension = Extension(MQINQ=lambda _c, _o, selector: one[selector])
    dialect = of_pymqi(extension)

    assert ({9: 1, 2016: b"ORDERS".ljust(48)}, 0, 0) == dialect.inquire(5, 7, (9, 2016))
    assert ({20: -1, 2013: b"*" * 64, 10: 0}, *NOT_FOR_TYPE) == dialect.inquire(5, 7, (20, 2013, 10))
    assert ("MQINQ", 5, 7, 10) == extension.calls[-1]
    assert ({2001: b"*" * 256}, *NOT_FOR_TYPE) == dialect.inquire(5, 7, (2001,))


def test_pymqi_ends_an_inquire_at_the_first_refusal() -> None:
    extension = Extension(MQINQ=lambda _c, _o, selector: (1, *OK) if selector == 9 else (0, *REFUSED))

    assert ({}, *REFUSED) == of_pymqi(extension).inquire(5, 7, (9, 20, 24))
    assert [9, 20] == [call[3] for call in extension.calls]


def test_pymqi_ends_a_set_at_the_first_refusal() -> None:
    extension = Extension(MQSET=lambda _c, _o, selector, _v: OK if selector == 9 else REFUSED)
    dialect = of_pymqi(extension)

    assert [OK, REFUSED] == [dialect.set(5, 7, {9: 1}), dialect.set(5, 7, {9: 1, 2023: b"data", 24: 0})]
    assert [("MQSET", 5, 7, 9, 1), ("MQSET", 5, 7, 9, 1), ("MQSET", 5, 7, 2023, b"data")] == extension.calls


def test_pymqi_has_no_mqsubrq() -> None:
    assert (b"SRO", 2, Reason.FUNCTION_NOT_SUPPORTED) == of_pymqi(Extension()).request(5, 9, 1, b"SRO")
