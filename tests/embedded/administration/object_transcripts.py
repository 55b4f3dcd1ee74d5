"""Transcripts of every command about channels, namelists, processes, AUTHINFO, listeners and services, attribute by attribute.

The commands follow from the tables of attributes. `test_object_answers` compares the transcripts with the stored files. `python
-m tests.embedded.administration.object_transcripts` writes these files again.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, DefinedKind
from mqflow.embedded.mqsc import Verdict, run
from mqflow.embedded.mqsc.display import as_text
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.pcf.codes import CommandCode, ParameterId
from mqflow.mqi.pcf.structures import CFIN, CFSL, CFST, Parameter
from tests.embedded.administration.commanding import Commander

__all__ = ("FOLDER", "TRANSCRIPTS", "by_mqsc", "by_pcf")

FOLDER = Path(__file__).parent / "object_answers"
_NOW = re.compile(r"\d{4}-\d\d-\d\d|\d\d\.\d\d\.\d\d")
_PCF_WORDS = {"AUTHINFO": "AUTH_INFO"}
_TYPE_OF = {"CHANNEL": 1511, "AUTHINFO": 66}


def _types(kind: DefinedKind) -> Iterator[tuple[int, str]]:
    """Yield each type of the kind, with the clause that names the type in MQSC."""
    words = next((spec.words or {} for spec in kind.specs if spec.field == "kind"), {})
    keyword = next((spec.keyword for spec in kind.specs if spec.field == "kind"), "")
    yield from ((number, f" {keyword}({word})") for word, number in words.items())
    if not words:
        yield 0, ""


def _settable(kind: DefinedKind, number: int) -> list[AttributeSpec]:
    return [spec for spec in kind.applicable(number) if not spec.read_only and spec.field != "kind"]


def _samples(spec: AttributeSpec) -> tuple[tuple[str, Any], tuple[str, Any]]:
    """Return two values of the attribute, each as MQSC writes it and as PCF sends it."""
    if spec.items_max:
        return ("ONE,TWO", ("ONE", "TWO")), ("' '", ())
    if spec.chars:
        text = f"{spec.keyword}.1"[: spec.chars]
        return (f"'{text}'", text), ("' '", "")
    words = [(word, number) for word, number in (spec.words or {}).items()]
    ends = [(str(spec.low), spec.low), (str(spec.high), spec.high)] if spec.low < spec.high else []
    found = [*words, *ends]
    return found[0], found[-1]


def _wrong(spec: AttributeSpec) -> tuple[str, Any]:
    if spec.chars:
        text = "NO NAME" if spec.object_name else "x" * (spec.chars + 1)
        return f"'{text}'", text
    return "-77", -77


def _scripts() -> Iterator[str]:
    for noun, kind in DEFINED_KINDS.items():
        yield f"DISPLAY {noun}(*)"
        yield f"DISPLAY {noun}(SYSTEM.*) ALL"
        for number, named in _types(kind):
            specs = _settable(kind, number)
            yield f"DEFINE {noun}(A){named}"
            yield f"DISPLAY {noun}(A)"
            yield f"DEFINE {noun}(A){named}"
            settings = " ".join(f"{spec.keyword}({_samples(spec)[0][0]})" for spec in specs)
            yield f"DEFINE {noun}(A){named} {settings} REPLACE"
            yield f"DISPLAY {noun}(A) ALL"
            yield f"DEFINE {noun}(B){named} LIKE(A)"
            yield f"DISPLAY {noun}(B) DESCR WHERE(DESCR LK DES*)"
            settings = " ".join(f"{spec.keyword}({_samples(spec)[1][0]})" for spec in specs)
            yield f"ALTER {noun}(A){named} {settings}"
            yield f"DISPLAY {noun}(A)"
            strangers = [spec for spec in kind.specs if spec not in kind.applicable(number)]
            if strangers:
                settings = " ".join(f"{spec.keyword}({_samples(spec)[0][0]})" for spec in strangers)
                yield f"DEFINE {noun}(C){named} {settings}"
                yield f"ALTER {noun}(A) {settings}"
            yield f"DELETE {noun}(B)"
            yield f"DELETE {noun}(A)"
            yield f"DELETE {noun}(A) IGNSTATE(YES)"
        for spec in kind.specs:
            yield f"ALTER {noun}(SYSTEM.NONE) {spec.keyword}({_wrong(spec)[0]})"
            yield f"DISPLAY {noun}(SYSTEM.*) WHERE({spec.keyword} EQ {_samples(spec)[0][0]})"
        yield f"ALTER {noun}(A) DESCR('not there')"
        yield f"DELETE {noun}(A)"
        yield f"DISPLAY {noun}(A)"


def _now_masked(lines: Iterator[str]) -> list[str]:
    """Return the lines with dots for dates and times."""
    return [_NOW.sub(lambda found: "." * len(found[0]), line) for line in lines]


def by_mqsc() -> list[str]:
    """Return the commands of MQSC and their answers, line by line."""

    def lines() -> Iterator[str]:
        with EmbeddedQueueManager("QM1") as queue_manager:
            for script in _scripts():
                yield f"> {script}"
                for response in run(script, queue_manager.administration).responses:
                    # Sentences of failures have tests of their own.
                    yield response.text if response.verdict is Verdict.DONE else f"{response.verdict.name} {response.reason}"
                    for record in response.records:
                        yield from as_text(record).splitlines()

    return _now_masked(lines())


def _parameter(spec: AttributeSpec, value: Any) -> Parameter:
    match value:
        case tuple():
            return CFSL(spec.selector, value)
        case str():
            return CFST(spec.selector, value)
        case _:
            return CFIN(spec.selector, value)


def _commands() -> Iterator[tuple[CommandCode, tuple[Parameter, ...]]]:
    for noun, kind in DEFINED_KINDS.items():
        word = _PCF_WORDS.get(noun, noun)
        change, copy, create, delete, inquire = (
            CommandCode[f"{verb}_{word}"] for verb in ("CHANGE", "COPY", "CREATE", "DELETE", "INQUIRE")
        )
        name = next(spec.selector for spec in kind.specs if spec.field == "name")
        renamed = [CFST(ParameterId[f"{which}_{word}_NAME"], which[0]) for which in ("FROM", "TO")]
        yield inquire, (CFST(name, "SYSTEM.*"),)
        for number, _ in _types(kind):
            typed = (CFIN(_TYPE_OF[noun], number),) if number else ()
            specs = _settable(kind, number)
            yield create, (CFST(name, "F"), *typed)
            yield create, (CFST(name, "F"), *typed)
            yield inquire, (CFST(name, "F"), *typed)
            yield change, (CFST(name, "F"), *typed, *(_parameter(spec, _samples(spec)[0][1]) for spec in specs))
            yield copy, (*renamed, *typed)
            yield copy, (*renamed, *typed)
            yield inquire, (CFST(name, "T"), *typed)
            yield create, (CFST(name, "F"), *typed, CFIN(ParameterId.REPLACE, 1))
            yield inquire, (CFST(name, "*"), *typed)
            for spec in kind.specs:
                if spec not in specs and spec.field not in {"name", "kind"}:
                    yield change, (CFST(name, "F"), *typed, _parameter(spec, _samples(spec)[0][1]))
            yield delete, (CFST(name, "F"),)
            yield delete, (CFST(name, "T"),)
            yield delete, (CFST(name, "T"),)
            for attribute in specs if number in {0, 1, 3} else ():
                yield create, (CFST(name, "F"), *typed, _parameter(attribute, _wrong(attribute)[1]))
        yield create, (CFST(name, "N" * 49),)
        yield change, (CFST(name, "F"),)
        yield inquire, (CFST(name, "F"),)
        if f"INQUIRE_{word}_NAMES" in CommandCode.__members__:
            yield CommandCode[f"INQUIRE_{word}_NAMES"], (CFST(name, "SYSTEM.*"),)


def by_pcf() -> list[str]:
    """Return the PCF commands and their answers, line by line."""

    def lines() -> Iterator[str]:
        with EmbeddedQueueManager("QM1") as queue_manager, Commander(queue_manager) as commander:
            for code, parameters in _commands():
                yield f"> {code.name} {' '.join(map(_written, parameters))}"
                for response in commander.command(code, *parameters):
                    header = response.header
                    yield f"{header.completion} {header.reason} {' '.join(map(_written, response.parameters))}"

    return _now_masked(lines())


def _written(parameter: Parameter) -> str:
    """Return the parameter with its structure. A text has its length in front instead of its padding."""
    value = parameter.value
    shown = ",".join(map(_measured, value)) if isinstance(value, tuple) else _measured(value)
    return f"{type(parameter).__name__} {parameter.parameter:d}={shown}"


def _measured(value: object) -> str:
    return f"{len(value)}:{value.rstrip()}" if isinstance(value, str) else str(value)


TRANSCRIPTS = {"mqsc": by_mqsc, "pcf": by_pcf}

if __name__ == "__main__":
    for stem, transcript in TRANSCRIPTS.items():
        (FOLDER / f"{stem}.txt").write_text("\n".join(transcript()) + "\n")
