"""The security of the console: log-in, sessions, hosts, origins, escapes, and the headers of each answer."""

import re
from html.parser import HTMLParser

import pytest
from starlette.requests import Request

from mqflow.cli.console.access import HEADERS, Access, refused_request
from mqflow.cli.watching.server import LOOPBACK
from mqflow.policy.poison.moved_message import Why
from mqflow.testing.virtual_clock import SeededRandom, VirtualClock
from tests.cli.console.conftest import LOGIN, Bench, Browser

pytestmark = pytest.mark.anyio

PAGES = ("/", "/live", "/queue?queue=ORDERS.BOQ", "/message?queue=ORDERS.BOQ&id=00", "/search", "/edit")
CHANGES = ("/redrive", "/edit", "/carry-out")


@pytest.mark.parametrize(
    ("method", "host", "origin", "is_refused"),
    [
        pytest.param("GET", "localhost:8161", None, False, id="a page"),
        pytest.param("GET", "127.0.0.1:9000", None, False, id="through a tunnel from another port"),
        pytest.param("GET", "[::1]:8161", None, False, id="IPv6"),
        pytest.param("GET", "evil.example:8161", None, True, id="a name that resolves to this machine (DNS rebinding)"),
        pytest.param("GET", "localhost.evil.example", None, True, id="a name that begins like this one"),
        pytest.param("GET", "", None, True, id="no host"),
        pytest.param("GET", "[", None, True, id="a host that cannot be read"),
        pytest.param("POST", "localhost:8161", "http://localhost:8161", False, id="a form of this console"),
        pytest.param("POST", "localhost:8161", "http://localhost:9999", True, id="a form of another port"),
        pytest.param("POST", "localhost:8161", "https://localhost:8161", True, id="a form of another scheme"),
        pytest.param("POST", "localhost:8161", "null", True, id="a form of a sandbox"),
        pytest.param("POST", "localhost:8161", None, True, id="a form without an origin"),
    ],
)
async def test_a_request_must_name_this_console_and_a_form_must_come_from_it(
    method: str, host: str, origin: str | None, *, is_refused: bool
) -> None:
    headers = {"host": host} | ({} if origin is None else {"origin": origin})

    assert is_refused == bool(refused_request(method, "http", headers, LOOPBACK))


async def test_a_host_name_can_have_capital_letters() -> None:
    access = Access(VirtualClock(), hosts=("MQ.Example",))

    assert "" == refused_request("GET", "https", {"host": "mq.example:8161"}, access.hosts)


@pytest.mark.parametrize("path", PAGES)
async def test_without_a_session_no_page_shows_anything(bench: Bench, path: str) -> None:
    answer = await bench.browser().get(path)

    assert answer.status_code in {303, 401}
    assert "ORDERS" not in answer.text


async def test_a_wrong_token_opens_no_session(bench: Bench) -> None:
    answer = await bench.browser().post("/login", data={**LOGIN, "token": bench.access.token[:-1]})

    assert 403 == answer.status_code
    assert "set-cookie" not in answer.headers


async def test_no_script_reads_the_cookie_and_no_other_site_sends_it(bench: Bench) -> None:
    answer = await bench.browser().post("/login", data={**LOGIN, "token": bench.access.token})

    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert bench.access.token not in cookie


async def test_a_session_ends_after_twelve_hours_and_at_the_log_out(bench: Bench) -> None:
    browser = await bench.browser().log_in()
    page = await browser.get("/")
    assert 303 == (await browser.press(page, "Log out")).status_code
    assert 303 == (await browser.get("/")).status_code

    await browser.log_in()
    bench.clock.advance(12 * 3_600)
    assert 303 == (await browser.get("/")).status_code


async def test_of_101_sessions_the_oldest_has_ended(bench: Bench) -> None:
    access = bench.access

    opened = [access.log_in(access.token, "amelie") for _ in range(101)]

    asking = [Request({"type": "http", "headers": [(b"cookie", f"{access.cookie}={name}".encode())]}) for name in opened]
    assert [False, *[True] * 100] == [access.session(request) is not None for request in asking]


async def test_the_token_and_both_secrets_of_a_session_have_256_bits(bench: Bench) -> None:
    access = bench.access

    opened = [access.log_in(access.token, "amelie") or "" for _ in range(2)]

    asking = [Request({"type": "http", "headers": [(b"cookie", f"{access.cookie}={name}".encode())]}) for name in opened]
    found = [access.token, *opened, *(session.csrf for request in asking if (session := access.session(request)))]
    assert [43] * 5 == [len(each) for each in found]  # 32 bytes in base64
    assert 5 == len(set(found))


@pytest.mark.parametrize("path", CHANGES)
async def test_a_form_without_the_secret_of_its_session_changes_nothing(bench: Bench, path: str) -> None:
    bench.fail(b"order")
    browser = await bench.browser().log_in()

    answers = [
        await browser.post(path, data={"queue": "ORDERS.BOQ", **csrf}) for csrf in ({}, {"csrf": "wrong"}, {"csrf": "ü"})
    ]

    assert [403, 403, 403] == [answer.status_code for answer in answers]
    assert (1, 0) == bench.depths("ORDERS.BOQ", "ORDERS.IN")


async def test_a_plan_belongs_to_the_person_that_made_it(bench: Bench) -> None:
    bench.fail(b"order")
    app = bench.app()
    amelie, other = [await Browser(app, bench.access.token).log_in() for _ in range(2)]
    plan = await amelie.press(await amelie.get("/queue?queue=ORDERS.BOQ"), "Redrive this group...")
    number = re.findall(r'name="plan" value="([^"]*)"', plan.text)[0]
    csrf = re.findall(r'name="csrf" value="([^"]*)"', (await other.get("/")).text)[0]
    assert 22 == len(number)  # 16 bytes in base64

    answer = await other.post("/carry-out", data={"csrf": csrf, "plan": number})

    assert 409 == answer.status_code
    assert (1, 0) == bench.depths("ORDERS.BOQ", "ORDERS.IN")


@pytest.mark.parametrize("path", CHANGES)
async def test_a_read_only_console_has_no_page_that_changes_anything(bench: Bench, path: str) -> None:
    bench.fail(b"order")
    browser = await bench.browser(may_change=False).log_in()
    page = (await browser.get("/queue?queue=ORDERS.BOQ")).text
    csrf = re.findall(r'name="csrf" value="([^"]*)"', page)[0]

    assert 404 == (await browser.post(path, data={"csrf": csrf, "queue": "ORDERS.BOQ"})).status_code
    assert "Redrive" not in page


@pytest.mark.parametrize("path", ["/", "/login", "/static/console.js", "/no-such-page", "/queue", "/static/../pages.py"])
async def test_each_answer_has_the_security_headers(bench: Bench, path: str) -> None:
    browser = await bench.browser().log_in()

    answer = await browser.get(path)

    assert HEADERS.items() <= {name.title(): value for name, value in answer.headers.items()}.items() | {
        (name, answer.headers.get(name)) for name in HEADERS
    }


async def test_a_form_that_is_too_large_is_refused(bench: Bench) -> None:
    assert 413 == (await bench.browser().post("/login", content=b"token=" + b"x" * 9_000_000)).status_code


class Markup(HTMLParser):
    """The elements and attributes of a page, and its visible text."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.sources: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.sources |= {value or "" for name, value in attrs if name in {"src", "href", "action"}}


PIECES = (
    *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</textarea><script>", "</pre>", '"><svg onload=alert(1)>'),
    *("' onmouseover='alert(1)", "javascript:alert(1)", "{{ 7 * 7 }}", "{% include 'x' %}", "<!--", "-->", "]]>", "&lt;b&gt;"),
    *("&#60;", "\x00", "\x1b[2J", "\u202e", "\u2028", "\ufeff", "é", "\U0001f4a3", "<math><mtext></style><img>", "\n", "\r",
      "="),
)  # fmt: skip


def hostile(random: SeededRandom) -> str:
    return "".join(PIECES[int(random.random() * len(PIECES))] for _ in range(1 + int(random.random() * 6)))


async def test_none_of_a_thousand_hostile_texts_becomes_markup(bench: Bench) -> None:
    random = SeededRandom(19)
    browser = await bench.browser().log_in()
    known = Markup()
    plain = bench.fail(b"plain").hex()
    addresses = [
        "/",
        "/queue?queue=ORDERS.BOQ",
        f"/message?queue=ORDERS.BOQ&id={plain}",
        "/search?text=plain",
        "/queue?queue=NONE",
    ]
    for address in addresses:
        known.feed((await browser.get(address)).text)
    sent = []
    for _ in range(190):
        error, text, frame, handler = (hostile(random) for _ in range(4))
        why = Why(queue="ORDERS.IN", outcome="failed", error=error, text=text, frame=frame, handler=handler)
        sent.append(bench.fail(hostile(random).encode(), why))

    pages = [await browser.get("/queue?queue=ORDERS.BOQ")]
    pages += [await browser.get(f"/message?queue=ORDERS.BOQ&id={each.hex()}") for each in sent]
    pages += [await browser.get("/queue", params={"queue": hostile(random), "group": hostile(random)}) for _ in range(24)]
    pages += [await browser.get("/search", params={"text": hostile(random), "queue": "ORDERS.IN"}) for _ in range(2)]

    for page in pages:
        found = Markup()
        found.feed(page.text)
        assert set() == found.elements - known.elements
        assert set() == found.attributes - known.attributes
        assert all(source.startswith(("/", "#")) for source in found.sources)
        assert not any(letter in page.text for letter in "\x00\x1b\u202e\u2028\ufeff")


async def test_another_host_name_gets_no_page_even_with_a_session(bench: Bench) -> None:
    browser = await bench.browser().log_in()

    answer = await browser.get("/", headers={"Host": "evil.example"})

    assert 403 == answer.status_code
    assert "evil.example" in answer.text
    assert "ORDERS" not in answer.text
