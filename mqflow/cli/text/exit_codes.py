"""The exit codes of the commands, and the sentence that a command prints for an error."""

import textwrap
from typing import Final

__all__ = (
    "EXIT_CODES",
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_NOTHING",
    "EXIT_ORDERED",
    "EXIT_USAGE",
    "epilog",
    "exit_code_of",
    "sentence_of",
)

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NOTHING: Final = 3
EXIT_INTERRUPTED: Final = 130
EXIT_ORDERED: Final = 76
"""The exit code of a process that serves `mqflow run`, after an operator has ended its queue manager."""

EXIT_CODES: Final = {
    0: "success",
    EXIT_FAILED: "failure: the queue manager refused, a file cannot be read, the application or a consumer failed",
    EXIT_USAGE: "wrong usage: a wrong argument, option, setting or URL, or a missing package. The command did nothing",
    EXIT_NOTHING: "nothing found: no message, or the ledger knows nothing about it",
    10: "mqsc: a command of the script failed",
    75: "run: handlers were cut off; their messages are back on their queues",
    EXIT_INTERRUPTED: "interrupted",
}

_USAGE_ERRORS: Final = frozenset(
    {
        "ClientPackageError",
        "ConfigurationError",
        "ForeignJournalError",
        "JavaError",
        "SettingsError",
        "SparkMissingError",
        "UnprotectedAddressError",
    }
)
_COLUMNS: Final = 78
_SENTENCE_END: Final = (".", "!", "?")


def epilog() -> str:
    """Return the exit codes as the last lines of `mqflow --help`."""
    return "\b\nExit codes:\n" + "\n".join(
        textwrap.fill(meaning, _COLUMNS, initial_indent=f"  {code:>3}  ", subsequent_indent=" " * 7)
        for code, meaning in EXIT_CODES.items()
    )


def exit_code_of(error: BaseException) -> int:
    """Return the exit code for an error: `EXIT_USAGE` for wrong input, settings or installation, otherwise `EXIT_FAILED`.

    In an error group, the first error counts, because `sentence_of` prints it.
    """
    if isinstance(error, BaseExceptionGroup):
        return exit_code_of(error.exceptions[0])
    # Compared by name, because an import of the modules of all these errors would slow down each start.
    names = {kind.__name__ for kind in type(error).__mro__}
    return EXIT_USAGE if names & _USAGE_ERRORS else EXIT_FAILED


def sentence_of(error: BaseException) -> str:
    """Return the text of the error if it is a sentence; otherwise the text after the name of its class.

    For an error group, which task groups raise, return the text of the first error and the number of the others.
    """
    if isinstance(error, BaseExceptionGroup):
        first = sentence_of(error.exceptions[0])
        more = len(error.exceptions) - 1
        return f"{first} (and {more} more; --debug shows all errors)" if more else first
    text = str(error)
    if isinstance(error, OSError) and error.strerror and type(error).__str__ is OSError.__str__:
        text = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    if text.endswith(_SENTENCE_END) and " " in text:
        return " ".join((text, *getattr(error, "__notes__", ())))  # an exception without notes does not have this attribute
    return (
        f"{type(error).__name__}: {text}. --debug shows the traceback."
        if text
        else f"{type(error).__name__}. --debug shows the traceback."
    )
