"""MQSC as a test gives it: carried out, or an error that says every line that was refused. Knows no fixture."""

from collections.abc import Mapping, Sequence

from mqflow.embedded import mqsc
from mqflow.embedded.administration.interface import Administration

__all__ = ("MQSCError", "carry_out", "definition")


class MQSCError(AssertionError):
    """MQSC that a test asked for was not carried out."""


def carry_out(administration: Administration, commands: Sequence[str]) -> mqsc.Results:
    """Carry out MQSC commands, one or a script to a string. Raises `MQSCError` with every line that was refused."""
    results = mqsc.run("\n".join(commands), administration)
    refused = [each.text for each in results.responses if each.verdict is not mqsc.Verdict.DONE]
    if refused:
        raise MQSCError("\n".join(refused))
    return results


def definition(queue: str, kind: str, attributes: Mapping[str, str | int]) -> str:
    """Return the DEFINE of a queue by MQSC keywords in lower case."""
    clauses = "".join(f" {keyword.upper()}({_value(value)})" for keyword, value in attributes.items())
    return f"DEFINE {kind} ('{queue}'){clauses}"


def _value(value: str | int) -> str:
    """Return a value as MQSC takes it: words and numbers bare, what bare would be folded to upper case quoted."""
    text = str(value)
    bare = text and text == text.upper() and all(letter.isalnum() or letter in "._/%" for letter in text)
    return text if bare else "'" + text.replace("'", "''") + "'"
