"""The report about a script: the response to each command, and a summary. The result is text; the caller adds colour.

The report has no control character, even if a script or an object contains one.
"""

from collections.abc import Iterator
from typing import Final

from mqflow.embedded.mqsc.commands import Command, SyntaxProblem
from mqflow.embedded.mqsc.display import as_text
from mqflow.embedded.mqsc.interpreter import Response, Results, Verdict
from mqflow.embedded.mqsc.values import printable, without_secrets

__all__ = ("caret", "left_out", "lines_of", "summary")

_CONTEXT_CHARS: Final = 60


def lines_of(response: Response) -> Iterator[str]:
    """Yield the parts of the report about one command: sentences and records."""
    command = response.command
    match command:
        case SyntaxProblem():
            yield from caret(command)
        case Command():
            yield from left_out(command)
    if response.text:
        yield printable(response.text)
    for record in response.records:
        yield as_text(record)


def left_out(command: Command) -> Iterator[str]:
    """Yield a sentence that names the unsupported attributes of the command, if it has any."""
    if command.ignored:
        names = ", ".join(command.ignored)
        yield f"Known to MQSC, not supported by the embedded queue manager yet, and left out: {printable(names)}."


def caret(problem: SyntaxProblem) -> tuple[str, str]:
    """Return the invalid line of the script without its passwords, and a line with a caret under the error."""
    before = max(0, problem.column - 1 - _CONTEXT_CHARS)
    shown = printable(without_secrets(problem.source))[before : problem.column + _CONTEXT_CHARS]
    return f"   {shown}", f"   {' ' * (problem.column - 1 - before)}^"


def summary(results: Results) -> str:
    """Return the summary of the script: sentences with counts."""
    read = len(results.responses)
    failed, syntax = results.count(Verdict.FAILED), results.count(Verdict.SYNTAX_ERROR)
    sentences = [
        f"{_commands(read)} read.",
        f"{_commands(syntax)} with a syntax error.",
        f"{_commands(failed)} could not be processed." if failed else "All valid commands were processed.",
    ]
    unsupported = results.count(Verdict.UNSUPPORTED)
    if unsupported:
        sentences.append(
            f"{_commands(unsupported)} not supported by the embedded queue manager yet: the script still defines its queues."
        )
    if results.ignored:
        sentences.append(f"{results.ignored} attribute{'s' if results.ignored > 1 else ''} not supported yet and left out.")
    if results.not_run:
        sentences.append(f"{_commands(results.not_run)} did not run, because the connection is lost.")
    return "\n".join(sentences)


def _commands(count: int) -> str:
    match count:
        case 0:
            return "No command"
        case 1:
            return "One command"
        case _:
            return f"{count} commands"
