"""How a command ends: the exit codes, and the sentence an error is told in. Knows no command."""

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
"""Said to `mqflow run` by a process it has started to serve: its queue manager was ended by an operator."""

EXIT_CODES: Final = {
    0: "done",
    EXIT_FAILED: "failed: the queue manager refused, a file cannot be read, the application raised",
    EXIT_USAGE: "wrong usage: an argument, an option, a setting, a URL; a package that is missing; nothing was done",
    EXIT_NOTHING: "nothing there: no message, no story",
    10: "mqsc: a command of the script failed",
    75: "run: handlers were cut off; their messages are on their queues again",
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
_SENTENCE_END: Final = (".", "!", "?")


def epilog() -> str:
    """Return the exit codes as the last lines of `mqflow --help`."""
    return "\b\nExit codes:\n" + "\n".join(f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items())


def exit_code_of(error: BaseException) -> int:
    """Return what the process exits with: `EXIT_USAGE` for what was typed, set or installed wrongly, else `EXIT_FAILED`.

    Of a group of errors, the first counts: it is the one that is told.
    """
    if isinstance(error, BaseExceptionGroup):
        return exit_code_of(error.exceptions[0])
    # By name: an error of a module that was never imported cannot be compared with, and importing it would cost each start.
    names = {kind.__name__ for kind in type(error).__mro__}
    return EXIT_USAGE if names & _USAGE_ERRORS else EXIT_FAILED


def sentence_of(error: BaseException) -> str:
    """Return the error in a sentence: its own where it makes one, else with its class in front.

    Of a group of errors, as task groups raise them, the first is told and the others are counted.
    """
    if isinstance(error, BaseExceptionGroup):
        first = sentence_of(error.exceptions[0])
        more = len(error.exceptions) - 1
        return f"{first} (and {more} more errors; --debug shows them)" if more else first
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}." if error.filename else f"{error.strerror}."
    if text.endswith(_SENTENCE_END) and " " in text:
        return text
    return f"{type(error).__name__}: {text}. --debug shows where." if text else f"{type(error).__name__}. --debug shows where."
