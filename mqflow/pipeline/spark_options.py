"""The options of sources and sinks, as Spark passes them: text by name, in upper or lower case.

An unknown name is an error, because a misspelt limit limits nothing. A name that looks like a secret is an error too, because
Spark shows options in plans and in its pages. This file knows no source.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from mqflow.pipeline.errors import OptionError
from mqflow.policy.did_you_mean import closest

__all__ = ("SECRETS", "Options", "options_of")

SECRETS: Final = ("password", "passwd", "pwd", "token", "secret", "user", "credential", "keyrepositorypassword")
"""Words that the name of an option must not contain."""
_OF_SPARK: Final = ("checkpointLocation", "queryName", "mergeSchema")
"""Options that Spark itself adds."""
_TRUE: Final = frozenset({"true", "1", "yes"})
_FALSE: Final = frozenset({"false", "0", "no"})


class Options:
    """The options of one source or sink, after a check of their names."""

    def __init__(self, source: str, given: Mapping[str, str]) -> None:
        self._source = source
        self._given = dict(given)

    def text(self, name: str, default: str | None = None) -> str:
        """Return the option. Raises `OptionError` if it is missing and there is no default."""
        found = self._given.get(name.lower(), default)
        if found is None or found == "":
            if default is not None:
                return default
            raise OptionError(f"{self._source} needs the option {name!r}.")
        return found

    def number(self, name: str, default: int | None, *, least: int = 1) -> int | None:
        """Return the option as a whole number of at least `least`; underscores can group the digits.

        Return the default if the option is missing.
        """
        found = self._given.get(name.lower(), "")
        if not found:
            return default
        try:
            number = int(found)
        except ValueError:
            number = least - 1
        if number < least:
            raise OptionError(f"{self._source}: {name}={found!r} is not a whole number of at least {least}.")
        return number

    def boolean(self, name: str, *, default: bool) -> bool:
        """Return the option as a truth value; the default if the option is missing."""
        found = self._given.get(name.lower(), "").lower()
        if found and found not in _TRUE | _FALSE:
            raise OptionError(f"{self._source}: {name}={found!r} is neither true nor false.")
        return found in _TRUE if found else default

    def names(self, name: str) -> tuple[str, ...]:
        """Return the names that the option lists, separated by commas; empty if it is missing."""
        return tuple(part for part in (each.strip() for each in self._given.get(name.lower(), "").split(",")) if part)

    def one_of(self, name: str, accepted: Sequence[str], default: str | None = None) -> str:
        """Return the option. Raises `OptionError` if it is not one of the accepted values."""
        found = self.text(name, default)
        if found not in accepted:
            raise OptionError(f"{self._source}: {name}={found!r} is not known. Use one of: {', '.join(accepted)}.")
        return found


def options_of(source: str, given: Mapping[str, str], known: Sequence[str]) -> Options:
    """Return the options. Raises `OptionError` for an unknown name, and for a name that looks like a secret."""
    lowered = {name.lower(): value for name, value in given.items()}
    accepted = {name.lower(): name for name in (*known, *_OF_SPARK)}
    for name in lowered:
        if name in accepted:
            continue
        if any(word in name for word in SECRETS):
            raise OptionError(
                f"{source}: the option {name!r} is refused, because Spark shows options in plans and in its pages. Set "
                "the user on the workers' machines: MQFLOW_USER and MQFLOW_PASSWORD, or password_file in mqflow.toml."
            )
        near = closest(name, accepted)
        hint = f" Did you mean {accepted[near]}?" if near else ""
        raise OptionError(f"{source}: the option {name!r} is not known. Known options: {', '.join(known)}.{hint}")
    return Options(source, lowered)
