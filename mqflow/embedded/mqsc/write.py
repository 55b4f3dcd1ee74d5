"""Writes a queue down as the MQSC that defines it again. Knows the table of attributes; what it writes, `parse` reads."""

from msgspec.structs import asdict

from mqflow.embedded.mqsc.commands import Value
from mqflow.embedded.mqsc.values import quoted, word_of
from mqflow.embedded.mqsc.vocabulary import KINDS
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES, AttributeSpec, QueueAttributes

__all__ = ("to_mqsc",)


def to_mqsc(attributes: QueueAttributes) -> str:
    """Return the DEFINE command that makes this queue, every attribute written out, replacing what is there.

    Carried out on any queue manager, it gives the same queue whatever the defaults there are. Line ends in a description, which
    no MQSC string can hold, become blanks.
    """
    noun = next(noun for noun, kind in KINDS.items() if kind == attributes.kind)
    settings = [
        _setting(spec, asdict(attributes)[spec.field])
        for spec in sorted(QUEUE_ATTRIBUTES, key=lambda spec: spec.keyword)
        if attributes.kind in spec.kinds and not spec.read_only
    ]
    return " +\n   ".join([f"DEFINE {noun}({quoted(attributes.name)})", *settings, "REPLACE"]) + "\n"


def _setting(spec: AttributeSpec, value: Value) -> str:
    if spec.flag:
        return word_of(spec, value)
    return f"{spec.keyword}({quoted(str(value)) if spec.chars else word_of(spec, value)})"
