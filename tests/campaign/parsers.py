"""Feeds bytes to the parsers, guided by coverage: each parser answers with a result or with its own error, and never hangs.

`python -m tests.campaign.parsers NAME -runs=N -seed=S` is a program of libFuzzer (atheris). An input of 4 KiB has 5 s and 2 GB.
"""

import contextlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Encoding

__all__ = ("PARSERS", "Parser", "read_at_random")

_ROOT: Final = Path(__file__).parents[2]
_RULES: Final = (
    b"INPUTQ('DLQ') WAIT(NO)\nREASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(5)\nDESTQ(A*) ACTION(FWD) FWDQ(B) HEADER(NO)\n"
)
_TABLE: Final = (
    b'{"channel":[{"name":"A","type":"clientConnection","clientConnection":{"connection":[{"host":"h","port":1}]}}]}'
)
_INI: Final = b"CHANNELS:\n  DefRecon=YES\n  ReconDelay=(1000,200)(2000,200)\n"
_MQSC: Final = b"DEFINE QLOCAL(A) +\n  BOTHRESH(3) BOQNAME('B') REPLACE\nDISPLAY QUEUE(*) WHERE(CURDEPTH GT 0) ALL\n"
_SELECTOR: Final = b"JMSPriority > 3 AND (colour LIKE 'b%' OR size BETWEEN 1 AND 2) AND NOT x IS NULL"
_FOLDER: Final = b"<usr><a dt='i4'>1</a><g><b>x &amp; y</b></g></usr>"


class Parser(Struct, frozen=True):
    """A parser: its module, how to call it, the name of its error in a module, and examples that the fuzzer changes."""

    module: str
    call: Callable[[Any, bytes], object]
    error: str = ""
    examples: tuple[bytes, ...] = ()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _split(module: Any, data: bytes) -> object:
    format_ = ("MQHRF2", "MQDEAD", "MQHMDE", "MQHEPCF")[data[0] % 4] if data else ""
    encoding = Encoding.NATIVE if data[1:2] < b"\x80" else 273
    return module.split(MessageDescriptor(format=format_, encoding=encoding), data[2:])


_MQI: Final = "mqflow.mqi.errors:MQIError"
PARSERS: Final = {
    "RFH2 folder": Parser("mqflow.mqi.headers.rfh2_folder", lambda m, data: m.read_folder(_text(data)), _MQI, (_FOLDER,)),
    "header chain": Parser("mqflow.mqi.headers.chain", _split, _MQI, (b"\0\0RFH \0\0\0\2\0\0\0\x24", b"\1\0DLH \0\0\0\1")),
    "PCF": Parser("mqflow.mqi.pcf.pcf_reader", lambda m, data: m.parse(data), _MQI, (b"\1\0\0\0\x24\0\0\0\1\0\0\0",)),
    "selector": Parser(
        "mqflow.mqi.selectors.selector",
        lambda m, data: m.compile_selector(_text(data)),
        "mqflow.mqi.selectors.lexer:SelectorError",
        (_SELECTOR,),
    ),
    "MQSC": Parser("mqflow.embedded.mqsc.parser", lambda m, data: m.parse(_text(data)), examples=(_MQSC,)),
    "rules table": Parser("mqflow.policy.dead_letters.rules.parser", lambda m, data: m.parse(_text(data)), examples=(_RULES,)),
    "channel table": Parser(
        "mqflow.policy.channels.table_json",
        lambda m, data: m.parse(data),
        "mqflow.policy.channels.table:ChannelTableError",
        (_TABLE,),
    ),
    "mqclient.ini": Parser(
        "mqflow.policy.channels.client_ini",
        lambda m, data: m.parse_client_configuration(_text(data)),
        "mqflow.policy.channels.client_ini:ClientConfigurationError",
        (_INI,),
    ),
    "request": Parser(
        "mqflow.embedded.wire.protocol.requests",
        lambda m, data: m.decode_request(data),
        "mqflow.embedded.wire.protocol.frames:UndecodableError",
        (b"\x81\xa4type\xa6Commit",),
    ),
    "reply": Parser(
        "mqflow.embedded.wire.protocol.requests",
        lambda m, data: m.decode_reply(m.Commit(), data),
        "mqflow.embedded.wire.protocol.frames:UndecodableError",
        (b"\x81\xa5error\xc0",),
    ),
}


def read_at_random(seed: int, inputs: int) -> tuple[str, int, list[str]]:
    """Feed so many inputs to the parser that the seed selects. Return its name, the number of inputs, and what is wrong."""
    name = tuple(PARSERS)[seed % len(PARSERS)]
    with tempfile.TemporaryDirectory(prefix="mqflow-parsers-") as folder:
        for number, example in enumerate(PARSERS[name].examples):
            (Path(folder) / str(number)).write_bytes(example)
        limits = ("-max_len=4096", "-timeout=5", "-rss_limit_mb=2048", f"-artifact_prefix={folder}/", "-verbosity=1")
        ended = subprocess.run(
            [sys.executable, "-m", "tests.campaign.parsers", name, f"-runs={inputs}", f"-seed={seed + 1}", *limits, folder],
            cwd=_ROOT, capture_output=True, text=True, errors="replace", check=False,
        )  # fmt: skip
        made = [each.read_bytes() for each in Path(folder).glob("*-*")]
    done = re.search(r"Done (\d+) runs", ended.stderr)
    if done is not None and ended.returncode == 0:
        return name, int(done[1]), []
    printed = (ended.stdout + ended.stderr).splitlines()  # the traceback is on stdout
    shown = [line for line in printed if "Error" in line or "ERROR" in line or line.startswith("  File")]
    return name, 0, [f"{name}: {' | '.join(shown[-4:])}; input {made[:1]!r}"]


def _main(name: str, *arguments: str) -> None:
    atheris: Any = import_module("atheris")  # without types; only this process needs it
    parser = PARSERS[name]
    for loaded in [each for each in sys.modules if each == parser.module]:
        del sys.modules[loaded]
    with atheris.instrument_imports(include=["mqflow"]):
        module = import_module(parser.module)
    place, _, error = parser.error.partition(":")
    refusals = (getattr(import_module(place), error),) if error else ()

    def read(data: bytes) -> None:
        with contextlib.suppress(*refusals):
            parser.call(module, data)

    atheris.Setup([sys.argv[0], *arguments], read)
    atheris.Fuzz()


if __name__ == "__main__":
    _main(*sys.argv[1:])
