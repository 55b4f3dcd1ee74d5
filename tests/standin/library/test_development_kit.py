"""Programs in C on the headers and libraries of `mqflow standin library`, without Python in the program."""

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.c_structures import STRUCTURES
from mqflow.standin.calls.buffers import Conversion
from mqflow.standin.library.development_kit import HEADERS, read_constants, write_development_kit, write_headers
from mqflow.standin.library.install import StandInError
from mqflow.standin.library.layouts import EACH_VERSION
from mqflow.standin.library.layouts import STRUCTURES as OF_HEADERS
from mqflow.standin.library.shared_library import can_load
from tests.foreign.languages import LANGUAGES, SAID, command
from tests.foreign.serving import MissingError
from tests.standin.harness import Program, only_in

COMPILER = shutil.which("cc") or ""
pytestmark = [
    pytest.mark.skipif(not COMPILER or bool(can_load()), reason="needs a C compiler on Linux"),
    pytest.mark.xdist_group("standin"),
]
PROGRAM = Path(__file__).with_name("program.c")
DEFAULTS = {"MQMD": "MD", "MQOD": "OD", "MQGMO": "GMO", "MQPMO": "PMO", "MQSD": "SD", "MQSRO": "SRO", "MQCMHO": "CMHO",
            "MQSMPO": "SMPO", "MQIMPO": "IMPO", "MQPD": "PD", "MQDMPO": "DMPO", "MQCIH": "CIH", "MQIIH": "IIH"}  # fmt: skip


MODULES = {"cmqc.h": "_CMQC_linux_x64", "cmqxc.h": "CMQXC", "cmqcfc.h": "CMQCFC"}
LENGTHS = {layout.name: max(layout.lengths.values()) for layout in STRUCTURES} | {"MQMD": 364, "MQCIH": 180, "MQIIH": 84}


def compiled(source: Path, *options: str) -> None:
    done = subprocess.run(
        [COMPILER, "-Wall", "-Wextra", "-Werror", str(source), *options], capture_output=True, text=True, check=False
    )
    assert "" == done.stderr


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kit")
    write_development_kit(folder)
    made = folder / "program"
    libraries = folder / "lib64"
    compiled(PROGRAM, f"-I{folder / 'inc'}", f"-L{libraries}", "-lmqm_r", f"-Wl,-rpath,{libraries}", "-o", str(made))
    return made


def run(in_c: Path, mode: str, url: str, *before: str) -> list[str]:
    variables = os.environ | {"MQFLOW_URL": url}
    done = subprocess.run([*before, str(in_c), mode], capture_output=True, text=True, env=variables, check=False)
    return [*done.stdout.splitlines(), *done.stderr.splitlines()]


@pytest.fixture
def queue_manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[EmbeddedQueueManager, str]]:
    """Serve a queue manager with the queue Q, and give it with its URL."""
    with EmbeddedQueueManager("QM1") as own:
        own.administration.define(QueueAttributes(name="Q"))
        with closing(serve(own, tmp_path_factory.mktemp("s") / "s")) as server:
            yield own, f"embedded+unix:{server.path}?qmgr=QM1"


BEGUN = ["MQCONNX MQRC_NONE", "MQOPEN MQRC_NONE", "MQPUT MQRC_NONE"]
GOT = ["MQGET MQRC_NONE", "5 hello MQSTR "]
NOTHING = ["MQGET MQRC_NO_MSG_AVAILABLE"]
ENDED = ["MQDISC MQRC_NONE"]


def test_a_program_runs_on_the_queue_manager_of_the_command(in_c: Path, tmp_path: Path) -> None:
    queues = tmp_path / "queues.mqsc"
    queues.write_text("DEFINE QLOCAL(Q)\n")
    command = (sys.executable, "-m", "mqflow.cli", "standin", "run", "--url", "embedded::memory:?qmgr=QM1")

    said = run(in_c, "get", "", *command, "--mqsc", str(queues), "--")

    assert [*BEGUN, *GOT, *ENDED] == said


@pytest.mark.parametrize(
    ("mode", "between"),
    [pytest.param("shared", [*GOT, *NOTHING], id="another thread uses a connection that is shared"),
     pytest.param("alone", ["MQGET MQRC_HCONN_ERROR", *GOT], id="no other thread uses a connection that is not shared"),
     pytest.param("callback", ["MQCB MQRC_NONE", "MQCTL MQRC_NONE", "called with hello MQSTR ", "MQCTL MQRC_NONE", *NOTHING],
         id="a function of the program is called with the message"),
     pytest.param("bags", ["mqCreateBag MQRC_FUNCTION_NOT_SUPPORTED", *GOT], id="no call on bags does anything"),
     pytest.param("buffers",
         ["MQMHBUF MQRC_PROPERTY_VALUE_TOO_BIG",
          "MQMHBUF MQRC_NONE",
          "MQBUFMH MQRC_NONE",
          "MQSTR    body",
          "MQRC_NONE blue",
          "MQRC_NONE 6 e4 <  >",
          "MQRC_CONVERTED_STRING_TOO_BIG 4 0065",
          "MQXCNVC MQRC_SOURCE_CCSID_ERROR",
          *GOT], id="properties and text go through buffers")],
)  # fmt: skip
def test_a_program_has_its_handles_and_callbacks_on_a_served_queue_manager(
    in_c: Path, queue_manager: tuple[EmbeddedQueueManager, str], mode: str, between: list[str]
) -> None:
    own, url = queue_manager

    said = run(in_c, mode, url)

    # A function that the program has registered can be called before the line about MQCTL.
    assert sorted([*BEGUN, *between, *ENDED]) == sorted(said)
    assert 0 == own.administration.queue_status("Q").depth


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_program_in_another_language_gets_the_same_results_and_reasons(
    in_c: Path, queue_manager: tuple[EmbeddedQueueManager, str], tmp_path: Path, language: str
) -> None:
    own, url = queue_manager
    own.administration.define(QueueAttributes(name="DEV.QUEUE.1"))
    try:
        words = command(language, tmp_path)
    except MissingError as missing:
        pytest.skip(f"there is no {language}: {missing}")
    variables = os.environ | {"MQFLOW_URL": url, "LD_LIBRARY_PATH": str(in_c.with_name("lib64"))}

    done = subprocess.run(words, capture_output=True, text=True, env=variables, check=False)

    assert SAID == done.stdout.splitlines(), done.stderr


def test_the_definition_of_its_channel_refuses_a_program_without_tls(
    in_c: Path, queue_manager: tuple[EmbeddedQueueManager, str]
) -> None:
    own, url = queue_manager
    results = mqsc.run("DEFINE CHANNEL(TLS.SVRCONN) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12)", own.administration)

    assert 0 == results.exit_code()
    assert ["MQCONNX MQRC_SSL_INITIALIZATION_ERROR"] == run(in_c, "channel", url)


def test_a_program_that_ends_with_an_open_unit_of_work_leaves_nothing(
    in_c: Path, queue_manager: tuple[EmbeddedQueueManager, str]
) -> None:
    own, url = queue_manager

    assert BEGUN == run(in_c, "uncommitted", url)
    own.connect().disconnect()
    assert 0 == own.administration.queue_status("Q").depth


def test_a_program_gets_2059_if_its_queue_manager_cannot_be_reached(in_c: Path, tmp_path: Path) -> None:
    assert ["MQCONNX MQRC_Q_MGR_NOT_AVAILABLE"] == run(in_c, "get", f"embedded+unix:{tmp_path / 'nobody'}?qmgr=QM1")


def test_a_program_says_what_is_wrong_with_the_settings(in_c: Path) -> None:
    first, why = run(in_c, "get", "nonsense:QM1")

    assert "MQCONNX MQRC_Q_MGR_NOT_AVAILABLE" == first
    assert why.startswith("mqflow standin: ")
    assert "nonsense" in why


# Structures whose length the package publishes under another name. Those of PCF have a first element after this length.
FIXED = {"MQMD1": "MQMD_LENGTH_1", "MQDLH": "MQDLH_LENGTH_1", "MQRFH2": "MQRFH_STRUC_LENGTH_FIXED_2", "MQWCR": "56"}
FIXED |= {name: f"{name}_STRUC_LENGTH" for name in ("MQCFH", "MQCFIN", "MQCFIN64", "MQCFIF", "MQCFGR")}
ENDLESS = {"MQCFIL": "Values", "MQCFIL64": "Values", "MQCFSL": "Strings"}
ENDLESS |= {"MQCFST": "String", "MQCFBS": "String", "MQCFSF": "FilterValue", "MQCFBF": "FilterValue"}
WITHOUT_LENGTH = {"MQOR", "MQRR"}
# The types that Go compares exactly: members, and calls without their last two pointers.
TYPES = {
    "((MQCNO *)0)->SecurityParmsPtr": "PMQCSP", "((MQCNO *)0)->SSLConfigPtr": "PMQSCO",
    "((MQCNO *)0)->BalanceParmsPtr": "PMQBNO", "((MQCD *)0)->HdrCompList[1]": "MQLONG",
    "((MQCD *)0)->MsgCompList[15]": "MQLONG", "((MQSCO *)0)->EncryptionPolicySuiteB[3]": "MQLONG",
    "MQCONNX": "PMQCHAR, PMQCNO, PMQHCONN", "MQOPEN": "MQHCONN, PMQVOID, MQLONG, PMQHOBJ",
    "MQCLOSE": "MQHCONN, PMQHOBJ, MQLONG", "MQPUT1": "MQHCONN, PMQVOID, PMQVOID, PMQVOID, MQLONG, PMQVOID",
    "MQGET": "MQHCONN, MQHOBJ, PMQVOID, PMQVOID, MQLONG, PMQVOID, PMQLONG",
    "MQINQ": "MQHCONN, MQHOBJ, MQLONG, PMQLONG, MQLONG, PMQLONG, MQLONG, PMQCHAR",
    "MQSUB": "MQHCONN, PMQVOID, PMQHOBJ, PMQHOBJ", "MQCRTMH": "MQHCONN, PMQVOID, PMQHMSG",
    "MQINQMP": "MQHCONN, MQHMSG, PMQVOID, PMQVOID, PMQVOID, PMQLONG, MQLONG, PMQVOID, PMQLONG",
    "MQXEP": "MQHCONFIG, MQLONG, MQLONG, PMQFUNC, PMQXEPO", "MQXCLWLN": "PMQWXP, MQPTR, MQLONG, PMQPTR",
    "MQZEP": "MQHCONFIG, MQLONG, PMQFUNC", "mqExecute": "MQHCONN, MQLONG, MQHBAG, MQHBAG, MQHBAG, MQHOBJ, MQHOBJ",
    "mqInquireString": "MQHBAG, MQLONG, MQLONG, MQLONG, PMQCHAR, PMQLONG, PMQLONG", "((MQIEP *)0)->MQGET_Call": "PMQ_GET_CALL",
    "((MQIEP *)0)->MQZEP_Call": "PMQ_ZEP_CALL", "((MQAXP *)0)->Hconfig->MQXEP_Call": "PMQ_XEP_CALL",
    "((MQWXP *)0)->DestinationArrayPtr[0]->DestSeqFactor": "MQINT64", "((MQAXC *)0)->UserId[0]": "MQCHAR",
    "((MQAXC *)0)->SecurityId[0]": "MQBYTE",
}  # fmt: skip
# The words of the initial values of exits and services that are not zero, by their offsets.
# Source: libmqm-default 0.7, a Rust package. It has 1208 for MQCCSI_APPL (-3), the CCSID of a string.
WORDS: dict[str, dict[int, int | str]] = {
    "MQACH": {0: "ACH ", 4: 1, 8: 72}, "MQAXC": {0: "AXC ", 4: 1, 380: 6}, "MQAXP": {0: "AXP ", 4: 1, 8: 2, 28: 1},
    "MQCXP": {0: "CXP ", 4: 5, 152: 1, 200: -1}, "MQDXP": {0: "DXP ", 4: 1, 36: 1}, "MQNXP": {0: "NXP ", 4: 1, 8: 23, 60: 12},
    "MQPBC": {0: "PBC ", 4: 1, 28: -3}, "MQPSXP": {0: "PSXP", 4: 1, 8: 22, 28: -1},
    "MQSBC": {0: "SBC ", 4: 1, 180: -3, 204: -3, 228: -3, 276: -3, 280: 1},
    "MQWCR": {}, "MQWDR": {0: "WDR ", 4: 1, 8: 136}, "MQWDR1": {0: "WDR ", 4: 1, 8: 124}, "MQWDR2": {0: "WDR ", 4: 2, 8: 136},
    "MQWQR": {0: "WQR ", 4: 1, 8: 216, 208: 1, 212: -1}, "MQWQR1": {0: "WQR ", 4: 1, 8: 200},
    "MQWQR2": {0: "WQR ", 4: 2, 8: 208}, "MQWQR3": {0: "WQR ", 4: 3, 8: 212, 208: 1},
    "MQWQR4": {0: "WQR ", 4: 4, 8: 216, 208: 1, 212: -1}, "MQWXP": {0: "WXP ", 4: 2, 232: 1}, "MQWXP1": {0: "WXP ", 4: 1},
    "MQWXP2": {0: "WXP ", 4: 2, 232: 1}, "MQWXP3": {0: "WXP ", 4: 3, 232: 1}, "MQWXP4": {0: "WXP ", 4: 4, 232: 1},
    "MQXEPO": {0: "XEPO", 4: 1, 36: -3}, "MQZED": {0: "ZED ", 4: 1}, "MQZAC": {0: "ZAC ", 4: 1},
    "MQZAD": {0: "ZAD ", 4: 1, 56: 1001, 76: 33}, "MQZFP": {0: "ZFP ", 4: 1}, "MQZIC": {0: "ZIC ", 4: 1},
    "MQIEP": {0: "IEP ", 4: 1, 8: 264},
}  # fmt: skip


def test_the_structures_and_calls_have_the_lengths_and_types_that_are_published(tmp_path: Path) -> None:
    write_headers(tmp_path)
    names = [layout.name for layout in STRUCTURES] + ["MQIEP"]
    texts = {name: text.split() for structures in OF_HEADERS.values() for name, text in structures.items()}
    ends = {name: [at for at, item in enumerate(items) if item.startswith("/")] for name, items in texts.items()}
    names += [name for name in texts if name not in {*ENDLESS, *WITHOUT_LENGTH}]
    names += [f"{name}{number}" for name in EACH_VERSION for number in range(1, len(ends[name]) + 2)]
    lengths = {name: f"{name}_CURRENT_LENGTH" for name in names} | FIXED
    checks = [f'_Static_assert(sizeof({name}) == {length}, "{name}");' for name, length in lengths.items()]
    checks += [f"const {name} initial{name} = {{{name}_DEFAULT}};" for name in {**lengths, **texts}]
    for name, last in ENDLESS.items():
        checks.append(f'_Static_assert(offsetof({name}, {last}) == {name}_STRUC_LENGTH_FIXED, "{name}");')
    for name, places in ends.items():
        for at in places:
            field, before = texts[name][at - 1].split(":")[0], int(texts[name][at][1:]) - 1
            end = f"(offsetof({name}, {field}) + sizeof ((({name} *)0)->{field}))"
            length = f"{name}_LENGTH_{before}"
            kinds = [item.split(":")[1] for item in texts[name][:at] if ":" in item]
            # A structure ends at a multiple of the size of its largest member.
            largest = 8 if any(kind.startswith(("P", "q", "MQCHARV")) for kind in kinds) else 4
            checks.append(f'_Static_assert({length} >= {end} && {length} - {end} < {largest}, "{name} {before}");')
    for what, types in TYPES.items():
        expected = types if "->" in what else f"void (*)({types}, PMQLONG, PMQLONG)"
        checks.append(f'_Static_assert(_Generic({what}, {expected}: 1, default: 0), "{what}");')
    source = tmp_path / "lengths.c"
    source.write_text("\n".join([*(f"#include <{header}>" for header in HEADERS), *checks, ""]))

    compiled(source, f"-I{tmp_path}", "-fsyntax-only", "-Wno-unused-function", "-Wno-missing-field-initializers")


def test_each_header_compiles_alone_and_under_an_old_standard(tmp_path: Path) -> None:
    write_headers(tmp_path)
    for header in HEADERS:
        source = tmp_path / f"{header}.c"
        source.write_text(f"#include <{header}>\n")
        compiled(source, f"-I{tmp_path}", "-fsyntax-only", "-Wno-unused-function", "-std=c99", "-pedantic")


def test_the_structures_of_exits_and_services_have_the_initial_values_that_are_published(tmp_path: Path) -> None:
    write_headers(tmp_path)
    lines = [f'static {c} {c}_ = {{{c}_DEFAULT}}; printf("{c} %zu\\n", fwrite(&{c}_, 1, sizeof {c}_, file));' for c in WORDS]
    source, made, written = tmp_path / "initial.c", tmp_path / "initial", tmp_path / "initial.bytes"
    start = f'#include <stdio.h>\n#include <cmqec.h>\nint main(void) {{ FILE *file = fopen("{written}", "wb");\n'
    source.write_text(start + "\n".join(lines) + "\nreturn fclose(file); }\n")
    compiled(source, f"-I{tmp_path}", "-o", str(made))
    sizes = [line.split() for line in subprocess.run([made], capture_output=True, text=True, check=True).stdout.splitlines()]

    found, all_bytes = {}, written.read_bytes()
    for name, size in sizes:
        structure, all_bytes = all_bytes[: int(size)], all_bytes[int(size) :]
        found[name] = {at: structure[at : at + 4] for at in range(0, int(size), 4) if any(structure[at : at + 4])}

    expected = {
        name: {
            at: word.encode() if isinstance(word, str) else word.to_bytes(4, sys.byteorder, signed=True)
            for at, word in words.items()
        }
        for name, words in WORDS.items()
    }
    assert expected == found


def comparable(name: str, structure: bytes, length: int) -> bytes:
    """Return the fields whose initial values the package takes from IBM's documentation.

    It names its newest version, pads text with zeros, and has its own values for character sets, PubPriority and ResolvedType.
    """
    found = bytearray(structure[:length].replace(b" ", b"\0"))
    found[:8] = bytes(8)
    for layout in STRUCTURES:
        for field in layout.fields.values():
            if layout.name == name and field.name.endswith(("VSCCSID", "PubPriority", "ResolvedType")):
                found[field.offset : field.offset + 4] = bytes(4)
    return bytes(found)


@only_in("ibmmq", "ibmmq is the judge of the initial values")
def test_the_initial_values_are_those_of_the_package(program: Program) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_headers(folder)
        lines = [f"{c} {c}_ = {{{c}_DEFAULT}}; fwrite(&{c}_, sizeof {c}_, 1, stdout);" for c in DEFAULTS]
        source = folder / "initial.c"
        text = f"#include <stdio.h>\n#include <cmqc.h>\nint main(void) {{ {' '.join(lines)} return 0; }}\n"
        source.write_text(text)
        compiled(source, f"-I{folder}", "-o", str(folder / "initial"))
        found = subprocess.run([folder / "initial"], capture_output=True, check=True).stdout
    for c, python in DEFAULTS.items():
        ours, found = found[: LENGTHS[c]], found[LENGTHS[c] :]
        theirs = getattr(program.mq, python)().pack()
        assert comparable(c, theirs, len(theirs)) == comparable(c, ours, len(theirs)), c
    assert b"" == found


def test_without_a_compiler_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)

    with pytest.raises(StandInError, match="needs a C compiler"):
        write_development_kit(tmp_path)


def test_every_constant_and_every_name_of_a_number_is_that_of_the_package() -> None:
    """The package stays unimported: its modules of constants are files of their own."""
    spec = find_spec("ibmmq")
    assert spec is not None
    assert spec.origin is not None
    theirs = {name: runpy.run_path(str(Path(spec.origin).with_name(f"{name}.py"))) for name in (*MODULES.values(), "CMQSTRC")}

    ours = read_constants()

    for header, module in MODULES.items():
        constants = {name: value for name, value in theirs[module].items() if name[:2] == "MQ" and not isinstance(value, list)}
        own = {"MQDCC"} if header == "cmqxc.h" else set()  # the options of MQXCNVC, a call that the package does not have
        assert constants == {name: value for name, value in ours.of_header[header].items() if name.split("_")[0] not in own}
    options = {f"MQDCC_{option.name}": int(option) for option in Conversion}
    assert options.items() <= ours.of_header["cmqxc.h"].items()
    groups = {name.removesuffix("_DICT"): values for name, values in theirs["CMQSTRC"].items() if isinstance(values, dict)}
    assert {name: values for name, values in groups.items() if name[:2] == "MQ"} == ours.names
