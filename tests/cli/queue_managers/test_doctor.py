"""`mqflow doctor` and `mqflow reason`: everything that they print."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from mqflow.cli.queue_managers.reason import page
from mqflow.embedded.wire.server.certificates import CertificateFiles
from mqflow.mqi.errors import NotAuthorizedError, error_for
from mqflow.mqi.reason_codes import Reason
from tests.cli.conftest import Run

NO_DEADQ = (
    "warning            no dead-letter queue (ALTER QMGR DEADQ(...)): a poison message without a BOQNAME stays on its queue"
)
TROUBLED = """
ALTER QMGR DEADQ(' ')
DEFINE QLOCAL('A.NO.BOQ') BOTHRESH(3)
DEFINE QLOCAL('B.LOST.BOQ') BOTHRESH(4) BOQNAME(NOWHERE)
DEFINE QLOCAL('C.FULL') MAXDEPTH(1)
DEFINE QALIAS('D.ALIAS') TARGET('C.FULL')
"""


def after_packages(printed: str) -> list[str]:
    lines = printed.splitlines()
    [at] = [place for place, line in enumerate(lines) if line.startswith(("queue manager", "not opened"))]
    return lines[at:]


def test_doctor_shows_python_and_the_version_of_each_package(run: Run, queues: None) -> None:
    lines = run("doctor").stdout.splitlines()

    assert f"Python             {sys.version.split(maxsplit=1)[0]} on {sys.platform}" == lines[0]
    assert f"mqflow             {metadata.version('mqflow')}" == lines[1]
    names = ["anyio", "msgspec", "opentelemetry-sdk", "rich", "watchfiles", "trio", "cryptography", "pyarrow", "pyspark"]
    assert [*names, "pymqi", "ibmmq"] == [line.split()[0] for line in lines[2:13]]
    assert all(line[18] == " " and line[19] != " " for line in lines)  # a name has 18 columns


def test_doctor_finds_nothing_wrong_in_a_sound_queue_manager(run: Run, queues: None) -> None:
    run("mqsc", stdin="DEFINE QLOCAL(DLQ)\nALTER QMGR DEADQ(DLQ)")

    assert ["queue manager      QM1, 4 queues"] == after_packages(run("doctor").stdout)


def test_doctor_goes_on_if_it_may_not_look_at_the_certificates(run: Run, queues: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: CertificateFiles) -> list[Path]:
        raise PermissionError(13, "Permission denied", "data/tls/clients")

    monkeypatch.setattr(CertificateFiles, "all_certificates", refused)
    lines = run("doctor").stdout.splitlines()

    assert "warning            the certificates cannot be looked at: data/tls/clients: Permission denied." in lines
    assert "queue manager      QM1, 3 queues" in lines


def test_doctor_warns_about_each_queue_that_looks_wrong(run: Run, queues: None) -> None:
    run("mqsc", stdin=TROUBLED)
    run("put", "C.FULL", "x")

    found = run("doctor")
    records = [json.loads(line) for line in run("doctor", "--json").stdout.splitlines()]

    expected = [
        "queue manager      QM1, 7 queues",
        NO_DEADQ,
        "warning            A.NO.BOQ has BOTHRESH(3) but no BOQNAME",
        "warning            B.LOST.BOQ has BOTHRESH(4) but NOWHERE does not exist",
        "warning            C.FULL is full: 1 messages",
    ]
    assert (0, expected) == (found.exit_code, after_packages(found.stdout))
    assert [{"name": line[:18].rstrip(), "text": line[19:]} for line in expected] == records[-5:]


def test_doctor_says_where_a_setting_comes_from(run: Run, queues: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQFLOW_DRAIN_S", "7")

    lines = run("doctor").stdout.splitlines()

    assert "set                drain_s by environment (MQFLOW_DRAIN_S)" in lines
    assert "set                url by environment (MQFLOW_URL)" in lines


def test_doctor_fails_if_the_queue_manager_cannot_be_opened(run: Run) -> None:
    found = run("doctor", "--url", "embedded:./nowhere")

    [line] = after_packages(found.stdout)
    assert 1 == found.exit_code
    assert line.startswith("not opened         embedded:./nowhere: there is no queue manager at nowhere yet;")


@pytest.mark.parametrize(
    ("dead_letter_queue", "description", "expected"),
    [
        ("DLQ", "for orders", ["queue manager      QM7, command level 943: for orders"]),
        ("", "", ["queue manager      QM7, command level 943: no description", NO_DEADQ]),
    ],
)
def test_doctor_inquires_a_queue_manager_of_ibm_through_a_connection(
    run: Run, monkeypatch: pytest.MonkeyPatch, dead_letter_queue: str, description: str, expected: list[str]
) -> None:
    facts = {"name": "QM7", "command_level": 943, "dead_letter_queue": dead_letter_queue, "description": description}
    answers(monkeypatch, SimpleNamespace(**facts))

    assert expected == after_packages(run("doctor", "--url", "ibmmq://mq.example/QM7?channel=C").stdout)


def test_doctor_names_the_authority_that_an_inquiry_lacks(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = error_for(Reason.NOT_AUTHORIZED, "MQINQ")
    assert isinstance(refused, NotAuthorizedError)
    answers(monkeypatch, refused)

    grant = "grant SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('...') AUTHADD(INQ)"
    assert [
        "queue manager      QM7, which this user cannot inquire",
        f"warning            without its DEADQ no poison message is moved; {grant}: {refused}",
    ] == after_packages(run("doctor", "--url", "ibmmq://mq.example/QM7?channel=C").stdout)


def answers(monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    """Let a connection to QM7 answer an inquiry with these facts, or with this error."""

    @contextmanager
    def connected(_: object) -> Iterator[object]:
        yield SimpleNamespace(queue_manager_name="QM7")

    def inquire(_: object) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr("mqflow.cli.queue_managers.doctor.connected", connected)
    monkeypatch.setattr("mqflow.cli.queue_managers.doctor.inquire_queue_manager", inquire)


def test_a_reason_in_json_is_as_complete_as_its_text(run: Run) -> None:
    for code in ("2009", "2059", "2224"):
        name, reaction, *advice = run("reason", code).stdout.splitlines()
        facts = json.loads(run("reason", code, "--json").stdout)
        connecting = [f"From MQCONNX: {facts['advice_connecting']}"] if facts["advice_connecting"] else []

        assert (name, reaction) == (f"{facts['name']} ({code})", f"{facts['class']}: {facts['done']}")
        assert (code == "2224") is not bool(advice)
        assert advice == [facts["advice"]] * bool(facts["advice"]) + connecting


def test_the_page_of_all_reasons_is_the_page_of_the_documentation(run: Run) -> None:
    written = (Path(__file__).parents[3] / "docs" / "reason-codes.md").read_text("utf-8")

    assert written == page() == run("reason", "--page").stdout


def test_doctor_warns_about_settings_and_certificates(run: Run, queues: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQFLOW_DRIAN_S", "7")
    asked: list[tuple[object, ...]] = []

    def lines(files: object, now: float, *, only_soon: bool) -> Iterator[str]:
        asked.append((files, only_soon, now > 1_700_000_000))
        yield "warning: server.pem expires in 3 days."

    monkeypatch.setattr("mqflow.cli.queue_managers.doctor.expiry_lines", lines)

    shown = run("doctor").stdout.splitlines()

    warning = "warning            MQFLOW_DRIAN_S is not a setting, so it is ignored. Did you mean MQFLOW_DRAIN_S?"
    wanted = [warning, "warning            server.pem expires in 3 days."]
    assert wanted == [line for line in shown if line in wanted]
    assert [(CertificateFiles(Path("data/tls")).all_certificates(), True, True)] == asked


def test_doctor_looks_at_the_certificate_of_a_client(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[object] = []

    def lines(files: object, _now: float, *, only_soon: bool) -> Iterator[str]:
        asked.append((files, only_soon))
        yield from ()

    for name in ("me.pem", "me.key"):
        (tmp_path / name).touch()
    monkeypatch.setattr("mqflow.cli.queue_managers.doctor.expiry_lines", lines)

    run("doctor", "--url", "embedded+tls://mq.example:1414/QM1?cert=me.pem&key=me.key")
    run("doctor", "--url", "embedded+tls://mq.example:1414/QM1")

    assert [((Path("me.pem"),), True)] == asked
