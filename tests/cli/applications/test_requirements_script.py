"""The script of `mqflow mqsc module:app` is enough for a user without other authorities, and has no authority too many."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mqflow import App
from mqflow.app.config.settings import Settings
from mqflow.app.errors import RequestTimeoutError
from mqflow.app.requirements import Known, Use, requirements
from mqflow.cli.main import main
from mqflow.events import Warned
from mqflow.mqi.authorities import Authority, AuthorityKind
from mqflow.mqi.errors import MQIError
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE
from mqflow.testing.kit import QueueManagerKit
from tests.imported import imports_of

NAME = "app_that_needs_little"
OPTIONS = (
    *("--user", "orders", "--put", "LATER", "--put", "ASK", "--get", "PULLED", "--request", "--delay"),
    *("--publish", "News/Today", "--publish", "Prices/Oil"),
)
DLQ = "SYSTEM.DEAD.LETTER.QUEUE"
APPLICATION = """
from mqflow import App, Backout, Pace


CALM = Pace(first_s=1, factor=1, max_s=1, jitter=0)
app = App(name="orders")
confirm = app.publisher("ORDERS.OUT")


@app.listener("ORDERS.IN", backout=Backout(threshold=2, queue="ORDERS.BOQ", pace=CALM))
@confirm
async def handle(body: bytes) -> bytes:
    if body == b"poison":
        raise ValueError("bad data")
    return body


@app.listener("ASK", backout=Backout(threshold=1, pace=CALM))
async def answer(body: bytes) -> bytes:
    return body.upper()


@app.listener(topic="Prices/#", durable="desk-1", backout=Backout(threshold=1, queue="PRICES.BOQ", pace=CALM))
async def price(body: bytes) -> None:
    if body == b"poison":
        raise ValueError("bad data")
    await app.put("LATER", body, delay=1)


@app.listener(topic="News/Today", backout=Backout(threshold=1, pace=CALM))
async def news(body: bytes) -> None:
    await app.put("LATER", body, delay=1)
"""

Printed = Callable[..., Result]


@pytest.fixture
def printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Printed]:
    """Run `mqflow mqsc` on the application, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MQFLOW_URL", "embedded::memory:?qmgr=QM1")
    (tmp_path / f"{NAME}.py").write_text(APPLICATION)

    def run(*options: str) -> Result:
        return CliRunner().invoke(main, ["mqsc", f"{NAME}:app", *options])

    with imports_of(tmp_path):
        yield run


def commands(result: Result) -> list[str]:
    assert 0 == result.exit_code, result.output
    return [line for line in result.stdout.splitlines() if not line.startswith("*")]


def test_the_commands_are_those_the_application_needs(printed: Printed) -> None:
    assert [
        "DEFINE QLOCAL('ORDERS.IN') BOTHRESH(2) BOQNAME('ORDERS.BOQ')",
        "DEFINE QLOCAL('ORDERS.BOQ')",
        "DEFINE QLOCAL('ASK') BOTHRESH(1)",
        "DEFINE QLOCAL('PRICES.BOQ')",
        "DEFINE QLOCAL('ORDERS.OUT')",
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('orders') AUTHADD(CONNECT,INQ)",
        "SET AUTHREC PROFILE('ORDERS.IN') OBJTYPE(QUEUE) PRINCIPAL('orders') AUTHADD(GET)",
        "SET AUTHREC PROFILE('ORDERS.BOQ') OBJTYPE(QUEUE) PRINCIPAL('orders') AUTHADD(PASSALL,PUT)",
        "SET AUTHREC PROFILE('ASK') OBJTYPE(QUEUE) PRINCIPAL('orders') AUTHADD(GET,INQ)",
        "SET AUTHREC PROFILE('SYSTEM.BASE.TOPIC') OBJTYPE(TOPIC) PRINCIPAL('orders') AUTHADD(RESUME,SUB)",
        "SET AUTHREC PROFILE('PRICES.BOQ') OBJTYPE(QUEUE) PRINCIPAL('orders') AUTHADD(PASSALL,PUT)",
        "SET AUTHREC PROFILE('ORDERS.OUT') OBJTYPE(QUEUE) PRINCIPAL('orders') AUTHADD(PUT)",
    ] == commands(printed("--user", "orders"))


def test_a_group_may_be_allowed_instead_of_a_user(printed: Printed) -> None:
    assert "SET AUTHREC OBJTYPE(QMGR) GROUP('desk') AUTHADD(CONNECT,INQ)" in commands(printed("--group", "desk"))
    assert 2 == printed("--group", "desk", "--user", "orders").exit_code


def test_an_included_application_has_a_script_of_its_own_because_its_queue_manager_is_another(
    printed: Printed, tmp_path: Path
) -> None:
    (tmp_path / "mqflow.toml").write_text(
        '[queue_managers.archive]\nuser = "keeper"\n[listeners."archive:KEPT"]\nbackout_requeue_queue = "KEPT.BOQ"\n'
    )
    (tmp_path / f"{NAME}.py").write_text(
        'from mqflow import App\napp, archive = App(), App("embedded::memory:?qmgr=QM2", name="archive")\n'
        'app.include_app(archive)\n@archive.listener("KEPT")\nasync def keep(body: bytes) -> None: ...\n'
    )

    first, archive, wrong = printed("--user", "orders"), printed("--included", "archive"), printed("--included", "archives")

    assert ["SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('orders') AUTHADD(CONNECT)"] == commands(first)
    other = f"* archive has another queue manager, and a script of its own: mqflow mqsc {NAME}:app --included archive"
    assert other == first.stdout.splitlines()[-1]
    assert [
        "DEFINE QLOCAL('KEPT') BOQNAME('KEPT.BOQ')",
        "DEFINE QLOCAL('KEPT.BOQ')",
        "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('keeper') AUTHADD(CONNECT,INQ)",
        "SET AUTHREC PROFILE('KEPT') OBJTYPE(QUEUE) PRINCIPAL('keeper') AUTHADD(GET,INQ)",
        "SET AUTHREC PROFILE('KEPT.BOQ') OBJTYPE(QUEUE) PRINCIPAL('keeper') AUTHADD(PASSALL,PUT)",
    ] == commands(archive)
    assert f"* {NAME}:app --included archive needs these" in archive.stdout
    assert "runmqsc QM2 < FILE" in archive.stdout
    assert other not in archive.stdout
    assert f"--included archives: {NAME}:app includes no application of this name. It includes: archive." in wrong.output


def test_a_script_needs_no_url_of_an_included_application(printed: Printed, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.py").write_text(
        'from mqflow import App\napp, archive = App(), App(name="archive")\napp.include_app(archive)\n'
    )

    assert ["SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('orders') AUTHADD(CONNECT)"] == commands(printed("--user", "orders"))


def test_settings_override_the_declarations(printed: Printed, tmp_path: Path) -> None:
    (tmp_path / "mqflow.toml").write_text(
        'user = "setter"\n[listeners."ORDERS.IN"]\nbackout_threshold = 7\nbackout_requeue_queue = "OTHER.BOQ"\n'
    )

    lines = commands(printed())

    assert "DEFINE QLOCAL('ORDERS.IN') BOTHRESH(7) BOQNAME('OTHER.BOQ')" == lines[0]
    assert "SET AUTHREC PROFILE('OTHER.BOQ') OBJTYPE(QUEUE) PRINCIPAL('setter') AUTHADD(PASSALL,PUT)" in lines
    assert not [line for line in lines if "ORDERS.BOQ" in line]


def test_existing_objects_are_looked_up_and_not_defined(printed: Printed, tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'data'}?qmgr=QM1"
    script = (
        "DEFINE QLOCAL('BASE') BOTHRESH(3) BOQNAME('BASE.BOQ')\nDEFINE QLOCAL('BASE.BOQ')\n"
        f"DEFINE QALIAS('PULLED') TARGET('BASE')\nALTER QMGR DEADQ({DLQ})"
    )
    assert 0 == CliRunner().invoke(main, ["mqsc", "--url", url], input=script).exit_code

    lines = commands(printed("--user", "orders", "--get", "PULLED", "--url", url))

    of_orders = "OBJTYPE(QUEUE) PRINCIPAL('orders')"
    assert not [line for line in lines if line.startswith("DEFINE") and ("BASE" in line or "PULLED" in line)]
    assert {
        f"SET AUTHREC PROFILE('PULLED') {of_orders} AUTHADD(GET)",
        f"SET AUTHREC PROFILE('BASE') {of_orders} AUTHADD(INQ)",
        f"SET AUTHREC PROFILE('BASE.BOQ') {of_orders} AUTHADD(PASSALL,PUT)",
        f"SET AUTHREC PROFILE('{DLQ}') {of_orders} AUTHADD(PASSALL,PUT)",
    } <= set(lines)


@pytest.mark.parametrize("arguments", [("queues.mqsc",), ("--user", "orders"), ("nothing.mqsc", "--put", "Q")])
def test_a_source_that_is_neither_a_file_nor_an_application_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)

    assert 2 == CliRunner().invoke(main, ["mqsc", *arguments], input="").exit_code


def test_existing_topic_objects_are_used_with_their_models(printed: Printed, tmp_path: Path) -> None:
    url = f"embedded:{tmp_path / 'data'}?qmgr=QM1"
    script = (
        "DEFINE QMODEL('NEWS.MODEL') DEFTYPE(TEMPDYN) BOTHRESH(2) BOQNAME('NEWS.BOQ')\n"
        "DEFINE TOPIC('PRICES') TOPICSTR('Prices')\nDEFINE TOPIC('NEWS') TOPICSTR('News') MNDURMDL('NEWS.MODEL')"
    )
    assert 0 == CliRunner().invoke(main, ["mqsc", "--url", url], input=script).exit_code

    result = printed("--user", "orders", "--publish", "Sports", "--url", url)

    assert [
        "SET AUTHREC PROFILE('PRICES') OBJTYPE(TOPIC) PRINCIPAL('orders') AUTHADD(RESUME,SUB)",
        "SET AUTHREC PROFILE('NEWS') OBJTYPE(TOPIC) PRINCIPAL('orders') AUTHADD(SUB)",
        "SET AUTHREC PROFILE('SYSTEM.BASE.TOPIC') OBJTYPE(TOPIC) PRINCIPAL('orders') AUTHADD(PUB)",
    ] == [line for line in commands(result) if "OBJTYPE(TOPIC)" in line]
    assert "SET AUTHREC PROFILE('NEWS.BOQ') OBJTYPE(QUEUE) PRINCIPAL('orders') AUTHADD(PASSALL,PUT)" in commands(result)
    assert "SYSTEM.BASE.TOPIC is above every topic" in result.stdout


# -- it is enough, and not too much


def prepared(mq: QueueManagerKit, script: str) -> App:
    """Run the script on a queue manager that has only a dead-letter queue."""
    mq.mqsc(f"ALTER QMGR DEADQ({DLQ})", *script.splitlines())
    app = importlib.import_module(NAME).app
    assert isinstance(app, App)
    return app


async def everything_it_does(mq: QueueManagerKit, app: App) -> None:
    """Use each authority once. Raises an error if one is missing."""
    async with mq.run(app, user="orders"):
        await mq.put("ORDERS.IN", b"good")
        [out] = await mq.drain("ORDERS.OUT", within_s=10)
        assert b"good" == out.data
        await mq.put("ORDERS.IN", b"poison")
        await mq.drain("ORDERS.BOQ", within_s=20)
        assert b"WHO" == await app.request("ASK", b"who", reply=bytes, timeout_s=10)
        await everything_about_topics(mq, app)
        await app.put("LATER", b"x", delay=5)
        await mq.drain("LATER", within_s=20)
        await mq.put("PULLED", b"y")
        async with app.consumer("PULLED") as consumer:
            assert await consumer.receive(wait_ms=5_000) is not None
            await consumer.backout()
            assert await consumer.receive(wait_ms=5_000) is not None
        mq.mqsc("ALTER QLOCAL('ORDERS.BOQ') PUT(DISABLED)")
        await mq.put("ORDERS.IN", b"poison")
        await mq.drain(DLQ, within_s=20)
    async with mq.run(app, user="orders"):
        """Resume the durable subscription, which exists now."""
    assert [] == mq.told(Warned)


async def everything_about_topics(mq: QueueManagerKit, app: App) -> None:
    for topic in ("Prices/Oil", "News/Today"):
        await app.publish(topic, b"x")
        await mq.drain("LATER", within_s=20)
    await app.publish("Prices/Oil", b"poison")
    await mq.drain("PRICES.BOQ", within_s=20)


@pytest.fixture
def script(printed: Printed) -> str:
    return printed(*OPTIONS, "--dead-letter-queue", DLQ).stdout


@pytest.mark.mq_backend("asyncio", "trio")
async def test_on_an_empty_queue_manager_the_script_is_enough(mq: QueueManagerKit, script: str) -> None:
    await everything_it_does(mq, prepared(mq, script))


@pytest.mark.mq_backend("asyncio")
async def test_the_script_is_enough_for_records_of_decisions_too(
    mq: QueueManagerKit, printed: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQFLOW_DISPOSITION_QUEUE", "MQFLOW.DISPOSITION")
    lines = printed(*OPTIONS, "--dead-letter-queue", DLQ).stdout

    await everything_it_does(mq, prepared(mq, lines))

    assert "SET AUTHREC PROFILE('MQFLOW.DISPOSITION') OBJTYPE(QUEUE) PRINCIPAL('orders') AUTHADD(PUT)" in lines
    assert mq.depth("MQFLOW.DISPOSITION")


GRANTED = {
    ("QMGR", "SELF"): "CONNECT INQ", ("QUEUE", "ORDERS.IN"): "GET", ("QUEUE", "ORDERS.BOQ"): "PASSALL PUT",
    ("QUEUE", DLQ): "PASSALL PUT", ("QUEUE", "ASK"): "GET INQ PUT", ("QUEUE", "ORDERS.OUT"): "PUT",
    ("QUEUE", "PULLED"): "GET INQ", ("QUEUE", "LATER"): "PUT", ("QUEUE", "SYSTEM.DEFAULT.MODEL.QUEUE"): "GET",
    ("QUEUE", "PRICES.BOQ"): "PASSALL PUT", ("TOPIC", "SYSTEM.BASE.TOPIC"): "PUB RESUME SUB",
}  # fmt: skip


def test_the_list_of_removals_is_complete(mq: QueueManagerKit, script: str) -> None:
    prepared(mq, script)

    records = mq.queue_manager.administration.authorities.records()
    assert GRANTED == {
        (record.kind.value, record.profile): " ".join(sorted(record.authorities))
        for record in records
        if record.entity == "orders"
    }


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("kind", "profile", "authority"),
    [pytest.param(*where, word, id=f"{word} on {where[1]}") for where, words in GRANTED.items() for word in words.split()],
)
@pytest.mark.mq_backend("asyncio")  # the queue manager checks authorities in the same way under every event loop
async def test_without_any_one_authority_something_fails(
    mq: QueueManagerKit, script: str, kind: str, profile: str, authority: str
) -> None:
    app = prepared(mq, script)
    mq.mqsc(f"SET AUTHREC PROFILE('{profile}') OBJTYPE({kind}) PRINCIPAL('orders') AUTHRMV({authority})")

    with pytest.raises((AssertionError, MQIError, RequestTimeoutError)):
        await everything_it_does(mq, app)


def test_a_dlq_handler_needs_its_queue_and_the_queues_its_rules_name(printed: Printed, tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_text(
        "INPUTQ('HANDLED.DLQ')\n"
        "REASON(2053) ACTION(RETRY)\n"
        "REASON(2035) ACTION(FWD) FWDQ('SECURITY.DLQ')\n"
        "REPLYQ(?*) ACTION(FWD) FWDQ(&REPLYQ)\n"
        "ACTION(FWD) FWDQ('REST.DLQ') PUTAUT(CTX)\n"
    )
    with (tmp_path / f"{NAME}.py").open("a") as file:
        file.write('app.dead_letter_handler("rules.txt")\n')

    lines = commands(printed("--user", "orders"))

    of_orders = "OBJTYPE(QUEUE) PRINCIPAL('orders')"
    assert "DEFINE QLOCAL('HANDLED.DLQ')" in lines
    assert "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('orders') AUTHADD(ALTUSR,CONNECT,INQ)" in lines
    assert {
        f"SET AUTHREC PROFILE('HANDLED.DLQ') {of_orders} AUTHADD(BROWSE,GET)",
        f"SET AUTHREC PROFILE('SECURITY.DLQ') {of_orders} AUTHADD(PASSALL,PUT)",
        f"SET AUTHREC PROFILE('REST.DLQ') {of_orders} AUTHADD(PASSALL,PUT)",
    } == {line for line in lines if ".DLQ" in line and line.startswith("SET")}


@pytest.mark.parametrize("own_authority", [False, True])
def test_elsewhere_a_delay_processor_needs_the_staging_queue_and_alternate_users(*, own_authority: bool) -> None:
    app = App()
    app.delay_processor(own_authority=own_authority)

    needs = requirements(app, Use(put=("LATER",), delays=True, staging_queue="STAGED"), Known()).authorities

    words = {name: " ".join(sorted(authorities)) for (_, name), authorities in needs.items()}
    assert {
        "": "CONNECT INQ" if own_authority else "ALTUSR CONNECT INQ",
        "LATER": "INQ PASSALL PUT",
        "STAGED": "BROWSE GET INQ PASSALL PUT",
    } == words


def test_an_application_that_has_only_a_delay_processor_needs_the_queue_of_its_records_too() -> None:
    app = App(settings=Settings(disposition_queue="MQFLOW.DISPOSITION"))
    idle = requirements(app, Use(staging_queue="STAGED"), Known())
    app.delay_processor()

    needs = requirements(app, Use(staging_queue="STAGED"), Known())

    assert "MQFLOW.DISPOSITION" in {queue.name for queue in needs.queues}
    assert {Authority.PUT} == needs.authorities[AuthorityKind.QUEUE, "MQFLOW.DISPOSITION"]
    assert () == idle.queues


def test_an_application_that_asks_for_the_status_of_its_queues_needs_the_command_queue() -> None:
    def needed(*, asks: bool) -> set[str]:
        app = App(settings=Settings(queue_status=asks))

        @app.listener("ORDERS.IN")
        async def book(body: bytes) -> None: ...

        @app.listener(topic="Prices/#")
        async def price(body: bytes) -> None: ...

        found = requirements(app, Use(staging_queue=EMBEDDED_STAGING_QUEUE), Known()).authorities
        return {f"{authority} {name}" for (_, name), authorities in found.items() for authority in authorities}

    more = {"PUT SYSTEM.ADMIN.COMMAND.QUEUE", "GET SYSTEM.DEFAULT.MODEL.QUEUE", "DSP ORDERS.IN"}
    assert more == needed(asks=True) - needed(asks=False)
