"""The options of sources and sinks, as Spark hands them over: text by name, in any case.

Unknown names are refused, because a misspelt limit is no limit; so is whatever looks like a secret, because options show in
plans and in Spark's pages. Knows no source.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from mqflow.pipeline.errors import OptionError
from mqflow.policy.did_you_mean import closest

__all__ = ("SECRETS", "Options", "options_of")

SECRETS: Final = ("password", "passwd", "pwd", "token", "secret", "user", "credential", "keyrepositorypassword")
"""Words that no name of an option may have in it."""
_OF_SPARK: Final = ("checkpointLocation", "queryName", "mergeSchema")
"""What Spark hands over of its own."""
_TRUE: Final = frozenset({"true", "1", "yes"})
_FALSE: Final = frozenset({"false", "0", "no"})


class Options:
    """The options that one source or sink was given, all of them known by name."""

    def __init__(self, source: str, given: Mapping[str, str]) -> None:
        self._source = source
        self._given = dict(given)

    def text(self, name: str, default: str | None = None) -> str:
        """Return the option. Raises `OptionError` where it is not given and there is no default."""
        found = self._given.get(name.lower(), default)
        if found is None or found == "":
            if default is not None:
                return default
            raise OptionError(f"{self._source} needs the option {name!r}.")
        return found

    def number(self, name: str, default: int | None, *, least: int = 1) -> int | None:
        """Return the option as a whole number; digits may be grouped by underscores."""
        found = self._given.get(name.lower(), "")
        if not found:
            return default
        try:
            number = int(found)
        except ValueError:
            number = least - 1
        if number < least:
            raise OptionError(f"{self._source}: {name}={found!r} is no whole number from {least} on.")
        return number

    def boolean(self, name: str, *, default: bool) -> bool:
        """Return the option as a truth value."""
        found = self._given.get(name.lower(), "").lower()
        if found and found not in _TRUE | _FALSE:
            raise OptionError(f"{self._source}: {name}={found!r} is neither true nor false.")
        return found in _TRUE if found else default

    def names(self, name: str) -> tuple[str, ...]:
        """Return what the option lists, by commas; nothing where it is not given."""
        return tuple(part for part in (each.strip() for each in self._given.get(name.lower(), "").split(",")) if part)

    def one_of(self, name: str, accepted: Sequence[str], default: str | None = None) -> str:
        """Return the option, which must be one of these."""
        found = self.text(name, default)
        if found not in accepted:
            raise OptionError(f"{self._source}: {name}={found!r} is not known; {', '.join(accepted)} are.")
        return found


def options_of(source: str, given: Mapping[str, str], known: Sequence[str]) -> Options:
    """Return the options. Raises `OptionError` for a name that is not known, and for one that may say a secret."""
    lowered = {name.lower(): value for name, value in given.items()}
    accepted = {name.lower(): name for name in (*known, *_OF_SPARK)}
    for name in lowered:
        if name in accepted:
            continue
        if any(word in name for word in SECRETS):
            raise OptionError(
                f"{source}: the option {name!r} is refused, because options show in plans and in Spark's pages. Who "
                "connects is said where the code runs: MQFLOW_USER and MQFLOW_PASSWORD, or password_file in mqflow.toml."
            )
        near = closest(name, accepted)
        hint = f" Did you mean {accepted[near]}?" if near else ""
        raise OptionError(f"{source}: the option {name!r} is not known; {', '.join(known)} are.{hint}")
    return Options(source, lowered)
