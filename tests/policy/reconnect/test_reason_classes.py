"""The table of the classes of reason codes is complete, and the page made from it is current."""

from pathlib import Path

import pytest

from mqflow.cli.queue_managers.reason import page
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect import reason_classes
from mqflow.policy.reconnect.reason_classes import CLASSES, Class, classify, connection_gone, leaves_in_doubt

#: By number, so that the test finds a wrong name in the table. IBM publishes no such list: the classes are this project's.
EXPECTED = {
    Class.RETRY: (2003, 2033, 2080),
    Class.REOPEN: (2019, 2041, 2052, 2517, 2548),
    Class.RECONNECT: (
        *(2009, 2018, 2161, 2162, 2202, 2203, 2528, 2273, 2279, 2601),  # the connection is lost
        *(2549, 2195),  # the outcome of a call is unknown
        *(2059, 2538, 2537, 2543, 2025, 2568),  # MQCONNX failed
    ),
    Class.WAIT: (2016, 2051, 2268, 2042, 2053, 2056, 2192, 2071, 2102, 2017, 2270, 2189, 2101),
    Class.CONFIGURATION: (
        *(2035, 2063, 2217, 2577, 2381, 2392, 2393, 2397, 2398, 2399, 2400, 2401),  # the user and the authorities of the user
        *(2058, 2539, 2540, 2277, 2278, 2600, 2298, 2012, 2546, 2547, 2555, 2556),  # the queue manager and the channel
        *(2024, 2001, 2082, 2085, 2086, 2087, 2152, 2153, 2043, 2057, 2045, 2046, 2011),  # the object to open
        *(2036, 2037, 2038, 2039, 2040, 2093, 2094, 2095, 2096, 2097, 2098),  # the open options
    ),
    Class.MESSAGE: (
        *(2079, 2110, 2111, 2112, 2113, 2114, 2115, 2116, 2117, 2118, 2119, 2120, 2190, 2272),  # got, but not as requested
        *(2141, 2142, 2248, 2334, 2335, 2421, 2364, 2363, 2362),  # the headers or the backouts of the message
        *(2030, 2031, 2218, 2013, 2014, 2026, 2027, 2029, 2047, 2048, 2049, 2050, 2061, 2104, 2185),  # cannot be put
    ),
}


@pytest.mark.parametrize("expected", Class)
def test_a_reason_code_asks_for(expected: Class) -> None:
    assert dict.fromkeys(EXPECTED[expected], expected) == {reason: classify(reason) for reason in EXPECTED[expected]}


@pytest.mark.parametrize("reason", [0, 2999, Reason.RECONNECTING])
def test_an_unknown_reason_code_waits(reason: int) -> None:
    assert Class.WAIT is classify(reason)


def test_no_reason_code_is_in_two_classes() -> None:
    listed = [
        reason
        for name in ("_RETRY", "_REOPEN", "_RECONNECT", "_WAIT", "_CONFIGURATION", "_MESSAGE")
        for reason in getattr(reason_classes, name)
    ]

    assert sorted(CLASSES) == sorted(listed)


#: The rest of the table: groups of similar codes, by number.
KINDS = [
    (
        "a wrong parameter or structure",
        (2004, 2005, 2044, 2065, 2066, 2067, 2090, 2139, 2173, 2186, 2247, 2256),
        Class.CONFIGURATION,
    ),
    ("TLS that is set up wrongly", (2380, 2382, 2391, 2396, 2402, 2553, 2591, 2592, 2593, 2596), Class.CONFIGURATION),
    ("an exit or an installation that is missing", (2182, 2183, 2406, 2407, 2495, 2573, 2574, 2583, 2589), Class.CONFIGURATION),
    (
        "a subscription that cannot be so",
        (2424, 2425, 2432, 2434, 2435, 2436, 2440, 2459, 2504, 2509, 2510),
        Class.CONFIGURATION,
    ),
    ("a transmission queue that is wrong", (2091, 2092, 2184, 2196, 2197, 2198, 2199), Class.CONFIGURATION),
    ("a message that cannot be converted", (2143, 2144, 2145, 2146, 2150, 2340, 2341), Class.MESSAGE),
    ("a header that does not hold together", (2135, 2148, 2149, 2191, 2220, 2260, 2333, 2420), Class.MESSAGE),
    ("a property that is wrong", (2442, 2465, 2469, 2471, 2473, 2478, 2490, 2513), Class.MESSAGE),
    ("a group or segment that is wrong", (2241, 2242, 2249, 2250, 2251, 2252, 2253, 2258, 2417, 2443), Class.MESSAGE),
    ("something that is in use", (2160, 2201, 2271, 2344, 2429, 2499), Class.WAIT),
    ("something that a queue manager lacks", (2127, 2193, 2208, 2342, 2345, 2346, 2347, 2373), Class.WAIT),
    ("publishing that is stopped", (2479, 2502, 2503, 2525, 2531), Class.WAIT),
    ("an object that is not what was opened", (2480, 2518, 2522, 2523), Class.REOPEN),
    ("the queue manager's adapter gone", (2204,), Class.RECONNECT),
]


@pytest.mark.parametrize(("kind", "reasons", "expected"), KINDS, ids=[kind for kind, _, _ in KINDS])
def test_codes_of_one_kind_ask_for_the_same(kind: str, reasons: tuple[int, ...], expected: Class) -> None:
    assert dict.fromkeys(reasons, expected) == {reason: classify(reason) for reason in reasons}


def test_a_code_that_the_table_does_not_list_comes_with_events_or_commands_and_waits() -> None:
    unlisted = [reason for reason in Reason if reason not in CLASSES]

    assert {Class.WAIT} == {classify(reason) for reason in unlisted}
    assert {Reason.Q_DEPTH_HIGH, Reason.RECONNECTING, Reason.HBAG_ERROR, Reason.CHANNEL_STARTED} <= set(unlisted)


def test_the_page_of_reason_codes_is_made_from_the_table() -> None:
    current = (Path(__file__).parents[3] / "docs" / "reason-codes.md").read_text("utf-8")

    assert page() == current, "Make it again: mqflow reason --page > docs/reason-codes.md"


def test_every_reason_code_is_on_the_page_once() -> None:
    lines = [line for line in page().splitlines() if line.startswith("| ")]

    assert sorted(int(reason) for reason in Reason if reason) == sorted(
        int(cell) for line in lines if (cell := line.split("|")[1].strip()).isdecimal()
    )


@pytest.mark.parametrize(
    ("verb", "reason", "expected"),
    [
        pytest.param("MQCMIT", Reason.CONNECTION_BROKEN, True, id="the commit got no answer"),
        pytest.param("MQCMIT", Reason.CALL_INTERRUPTED, True, id="q045540: 2549, the outcome of the call is unknown"),
        pytest.param("MQCMIT", Reason.OUTCOME_PENDING, True, id="rc2124: the outcome is pending"),
        pytest.param("MQCMIT", Reason.BACKED_OUT, False, id="rc2003: the unit of work was backed out"),
        pytest.param("MQPUT", Reason.CONNECTION_BROKEN, False, id="no commit was asked for"),
        pytest.param("MQBACK", Reason.CONNECTION_BROKEN, False, id="the queue manager backs out by itself"),
    ],
)
def test_a_commit_is_in_doubt_unless_its_error_says_that_it_was_backed_out(
    verb: str, reason: Reason, *, expected: bool
) -> None:
    assert expected is leaves_in_doubt(error_for(reason, verb))


def test_a_connection_that_may_be_alive_is_not_gone() -> None:
    """A disconnect on a connection that lives would commit; after 2195 and 2549 nobody knows, and a quiescing one lives."""
    gone = {reason for reason, found in CLASSES.items() if connection_gone(reason) and found is Class.RECONNECT}

    assert {reason for reason in CLASSES if connection_gone(reason)} == gone
    assert Reason.CONNECTION_BROKEN in gone
    assert gone.isdisjoint(
        {Reason.UNEXPECTED_ERROR, Reason.CALL_INTERRUPTED, Reason.CONNECTION_QUIESCING, Reason.Q_MGR_QUIESCING}
    )
