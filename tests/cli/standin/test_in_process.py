"""`mqflow standin` and the begin and end of its library, without starting a program."""

import atexit
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mqflow.cli.standin import command, installation
from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.reason_codes import Reason
from mqflow.standin import StandInError
from mqflow.standin.calls.table import CALLS
from mqflow.standin.host import WhyNot
from mqflow.standin.library.development_kit import EMBEDDED
from tests.cli.conftest import Run

IN_MEMORY = "embedded::memory:?qmgr=QM1"
OF_IBM_MQ = "ibmmq://mq.example:1414/QM1?channel=APP.SVRCONN"
NOT_EMBEDDED = (
    f"'{OF_IBM_MQ}' is a queue manager of IBM MQ, and the stand-in library is for an embedded one. Name it: --url "
    "'embedded:./data?qmgr=QM1', or MQFLOW_URL."
)


class Installed:
    """The library on a queue manager, as the process of a program has it."""

    def __init__(self, *arguments: Any, why_not: WhyNot | None) -> None:
        self.arguments = arguments
        self.why_not = why_not
        self.is_withdrawn = False

    @property
    def queue_manager(self) -> Any:
        return self.arguments[-1]

    @property
    def is_closed(self) -> bool:
        try:
            self.queue_manager.connect()
        except Exception:  # noqa: BLE001 - whatever a closed queue manager raises
            return True
        return False

    def withdraw(self) -> None:
        assert not self.is_closed  # open units of work are backed out first
        self.is_withdrawn = True


class ProgramEnd(BaseException):
    """The end of the process, with its code."""


@pytest.fixture
def installed(run: Run, monkeypatch: pytest.MonkeyPatch) -> list[Installed]:
    """Return what was installed in this process; no library is loaded."""
    found: list[Installed] = []

    def install(*arguments: Any, why_not: WhyNot | None) -> Installed:
        found.append(Installed(*arguments, why_not=why_not))
        return found[-1]

    def leave(code: int) -> NoReturn:
        raise ProgramEnd(code)

    monkeypatch.setattr(installation, "install", install)
    monkeypatch.setattr(installation, "fill", install)
    monkeypatch.setattr(installation, "_opened", installation._Opened())
    monkeypatch.setattr(os, "_exit", leave)
    for name in (EMBEDDED, installation.MQSC, installation.URL):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return the functions that the end of the process calls, with their arguments."""
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(atexit, "register", lambda *each: found.append(each))
    return found


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the MQSC file that the environment names."""
    file = tmp_path / "queues.mqsc"
    file.write_text("DEFINE QLOCAL(Q)")
    monkeypatch.setenv(installation.MQSC, str(file))
    return file


def queues(queue_manager: EmbeddedQueueManager) -> list[str]:
    return [queue.name for queue in queue_manager.administration.queues() if not queue.name.startswith("SYSTEM.")]


@pytest.mark.parametrize("with_script", [False, True])
def test_a_program_begins_with_its_queues_and_its_end_withdraws_the_library(
    installed: list[Installed],
    ends: list[tuple[Any, ...]],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    *,
    with_script: bool,
) -> None:
    if with_script:
        request.getfixturevalue("script")
    monkeypatch.setenv(installation.URL, IN_MEMORY)

    installation.start()

    [library], [(end, *arguments)] = installed, ends
    assert ["Q"] * with_script == queues(library.queue_manager)
    end(*arguments)
    assert (True, True) == (library.is_withdrawn, library.is_closed)


@pytest.mark.usefixtures("ends")
def test_the_definition_of_its_channel_says_why_a_program_is_refused(
    installed: list[Installed], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = "DEFINE CHANNEL(TLS) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12) SSLCAUTH(OPTIONAL)"
    with EmbeddedQueueManager("QM1") as own, closing(serve(own, tmp_path / "s")) as server:
        mqsc.run(script, own.administration)
        for url in (f"embedded+unix:{server.path}?qmgr=QM1", IN_MEMORY):
            monkeypatch.setenv(installation.URL, url)
            installation.start()
            mqsc.run(script, installed[-1].queue_manager.administration)
            why_not = installed[-1].why_not
            assert why_not is not None

            assert Reason.SSL_INITIALIZATION_ERROR == (why_not("TLS", None) or (0, ""))[0]
            assert (None, None) == (why_not("TLS", []), why_not("OTHER", None))
    served = installed[0].why_not
    assert served is not None
    assert served("TLS", None) is None  # nobody can read the definition: MQCONN says why


def test_the_python_of_a_library_for_any_language_installs_nothing_at_its_start(
    installed: list[Installed], ends: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(EMBEDDED, "1")

    installation.start()

    assert ([], []) == (installed, ends)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "DEFINE QLOCAL(Q) BOTHRESH(many)",
            (
                "{}: AMQ8405: Syntax error in line 1, column 27: BOTHRESH(MANY) is not valid. "
                "BOTHRESH takes a number from 0 to 999999999."
            ),
        ),
        (None, "--mqsc is only for a queue manager in this process. For a served one, run `mqflow mqsc FILE` first."),
    ],
)
def test_a_program_without_its_queues_does_not_begin(
    installed: list[Installed],
    ends: list[tuple[Any, ...]],
    script: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    text: str | None,
    why: str,
) -> None:
    monkeypatch.setenv(installation.URL, IN_MEMORY)
    if text is None:
        monkeypatch.setattr(installation, "open_queue_manager", lambda _: object())
    else:
        script.write_text(text)

    with pytest.raises(ProgramEnd, match=r"^1$"):
        installation.start()

    assert ([], []) == (installed, ends)
    assert f"mqflow standin: {why.format(script)}\n" == capfd.readouterr().err


def test_a_queue_that_an_earlier_run_has_defined_is_a_note(
    installed: list[Installed],
    ends: list[tuple[Any, ...]],
    script: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(installation.URL, IN_MEMORY)
    script.write_text("DEFINE QLOCAL(Q)\nDEFINE QLOCAL(Q)\n")

    installation.start()

    assert ["Q"] == queues(installed[0].queue_manager)
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("mqflow standin: queues.mqsc: ")
    assert "MQRC_OBJECT_ALREADY_EXISTS (2100)" in line


def test_the_libraries_of_a_program_in_any_language_share_one_queue_manager_until_its_end(
    installed: list[Installed], script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.end()  # no library was called
    monkeypatch.setenv(installation.URL, IN_MEMORY)

    for place, name in enumerate(("libmqm_r.so", "libmqic_r.so")):
        installation.begin(place, name, CALLS)

    first, second = installed
    assert [(0, "libmqm_r.so"), (1, "libmqic_r.so")] == [each.arguments[:-1] for each in installed]
    assert first.queue_manager is second.queue_manager
    assert ["Q"] == queues(first.queue_manager)
    installation.end()
    assert [(False, True), (True, True)] == [(each.is_withdrawn, each.is_closed) for each in installed]
    installation.end()  # the second library of the program


def test_a_program_in_any_language_has_the_queue_manager_of_the_settings(
    installed: list[Installed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQFLOW_URL", "embedded::memory:?qmgr=OTHER")

    installation.begin(1, "libmqm_r.so", CALLS)

    assert "OTHER" == installed[0].queue_manager.name


def test_a_library_that_another_version_has_written_ends_its_program(
    installed: list[Installed], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ProgramEnd):
        installation.begin(1, "libmqm_r.so")

    assert [] == installed
    assert "Run `mqflow standin library FOLDER` again." in capfd.readouterr().err


def test_a_queue_manager_that_cannot_be_opened_is_a_sentence_and_its_program_gets_2059(
    installed: list[Installed], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(installation.URL, "nonsense")

    installation.begin(1, "libmqm_r.so", CALLS)
    installation.end()

    said = capsys.readouterr().err
    assert [(1, "libmqm_r.so", None)] == [each.arguments for each in installed]  # without a queue manager each MQCONN gets 2059
    assert said.startswith("mqflow standin: ")
    assert "nonsense" in said


def test_a_library_whose_settings_name_ibm_mq_does_not_call_itself_for_ever(
    installed: list[Installed], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ibmmq in this process calls the stand-in library, which calls the queue manager of the settings: ibmmq again."""
    monkeypatch.setenv("MQFLOW_URL", OF_IBM_MQ)

    installation.begin(1, "libmqm_r.so", CALLS)

    assert [(1, "libmqm_r.so", None)] == [each.arguments for each in installed]
    assert f"mqflow standin: {NOT_EMBEDDED}\n" == capsys.readouterr().err


def test_a_script_that_is_not_utf_8_is_a_sentence_with_the_place(
    installed: list[Installed], script: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(installation.URL, IN_MEMORY)
    script.write_bytes(b"DEFINE QLOCAL(Q)\n* \xff")

    with pytest.raises(ProgramEnd):
        installation.start()

    assert capfd.readouterr().err.startswith(f"mqflow standin: {script} is not UTF-8 in line 2, column 3 (byte 0xff).")


# -- the command


@pytest.mark.parametrize("more", [(), ("--mqsc", "queues.mqsc")])
def test_the_command_refuses_the_url_of_ibm_mq_before_the_program_starts(
    run: Run, executed: list[tuple[Any, ...]], script: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.setenv("MQFLOW_URL", OF_IBM_MQ)

    refused = run("standin", "run", *more, "--", "program")

    assert (2, f"mqflow: {NOT_EMBEDDED}\n", []) == (refused.exit_code, refused.stderr, executed)


@pytest.fixture
def executed(run: Run, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, ...]]]:
    """Start no program; return the programs, with their arguments and environments."""
    found: list[tuple[Any, ...]] = []
    with monkeypatch.context() as patched:
        patched.setattr(os, "execvpe", lambda *each: found.append(each))
        yield found


@pytest.mark.parametrize("before", ["", "own"])
@pytest.mark.parametrize(
    ("words", "url", "with_script"),
    [(("--url", IN_MEMORY), IN_MEMORY, False), (("--mqsc", "queues.mqsc"), "embedded:./data?qmgr=QM1", True)],
)
def test_a_program_gets_the_queue_manager_the_script_and_the_path_of_the_library(
    run: Run,
    executed: list[tuple[Any, ...]],
    script: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    words: tuple[str, ...],
    url: str,
    *,
    with_script: bool,
) -> None:
    monkeypatch.delenv(installation.MQSC)
    monkeypatch.setenv("PYTHONPATH", before)

    assert 0 == run("standin", "run", *words, "--", "program", "--mqsc", "-x").exit_code

    [(file, program, environment)] = executed
    startup = str(Path(command.__file__).parent / "startup")
    assert ("program", ("program", "--mqsc", "-x")) == (file, program)
    assert {
        installation.URL: url,
        installation.MQSC: str(script.resolve()) if with_script else None,
        "PYTHONPATH": f"{startup}{os.pathsep}own" if before else startup,
    } == {name: environment.get(name) for name in (installation.URL, installation.MQSC, "PYTHONPATH")}


def test_a_folder_without_a_queue_manager_is_a_sentence_and_nothing_starts(run: Run, executed: list[tuple[Any, ...]]) -> None:
    refused = run("standin", "run", "--", "program")

    assert (2, []) == (refused.exit_code, executed)
    assert "there is no queue manager at data yet" in refused.stderr


def test_a_program_that_cannot_be_run_is_a_sentence(run: Run) -> None:
    refused = run("standin", "run", "--url", IN_MEMORY, "--", "./no-such-program")

    assert (2, "mqflow: ./no-such-program cannot be run: No such file or directory.\n") == (refused.exit_code, refused.stderr)


@pytest.mark.parametrize("words", [("run", "--url", IN_MEMORY, "--", "program"), ("library", "made")])
def test_a_system_without_the_library_is_a_sentence(
    run: Run, executed: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr(command, "can_load", lambda: "This is no Linux.")

    refused = run("standin", *words)

    assert (2, "mqflow: This is no Linux.\n", []) == (refused.exit_code, refused.stderr, executed)
    assert not Path("made").exists()


@pytest.mark.parametrize("is_missing", [False, True])
def test_the_command_for_a_compiler_follows_the_files(run: Run, monkeypatch: pytest.MonkeyPatch, *, is_missing: bool) -> None:
    def write(folder: Path) -> None:
        if is_missing:
            raise StandInError("There is no C compiler.")
        folder.mkdir()

    monkeypatch.setattr(command, "write_development_kit", write)
    place = Path("made").resolve()

    written = run("standin", "library", "made")

    line = f"cc program.c -I{place}/inc -L{place}/lib64 -lmqm_r -Wl,-rpath,{place}/lib64\n"
    expected = (2, "", "mqflow: There is no C compiler.\n") if is_missing else (0, line, "")
    assert expected == (written.exit_code, written.stdout, written.stderr)
    assert place.exists() is not is_missing


def test_the_command_for_pip_follows_the_headers(run: Run) -> None:
    written = run("standin", "kit", "made")

    line = f"MQ_FILE_PATH={Path('made').resolve()} pip install --no-binary pymqi pymqi\n"
    assert (0, line) == (written.exit_code, written.stdout)
    assert Path("made/inc/cmqc.h").is_file()
