"""Finds what other distributions add to mqflow through entry points, and loads it when it is asked for by name.

Listing reads metadata and imports nothing. Nothing that is merely installed takes part in the handling of messages: an
application names its middleware, hooks and codecs, and one that cannot be had is refused with the reason. A command is loaded
when it is called, so a broken one breaks no other. Knows metadata; knows no application.
"""

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from mqflow.app.errors import ConfigurationError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ("Group", "Plugin", "PluginError", "find", "installed", "load", "named")


class Group(Enum):
    """What a plugin can add; the value is the entry point group."""

    MIDDLEWARE = "mqflow.middleware"
    HOOKS = "mqflow.hooks"
    CODECS = "mqflow.codecs"
    COMMANDS = "mqflow.commands"


class Plugin(Struct, frozen=True, kw_only=True):
    """One entry point of an installed distribution."""

    group: Group
    #: What it is asked for by.
    name: str
    #: Where it is: "module:object".
    target: str
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} ({self.target}, from {self.distribution} {self.version})"


class PluginError(ConfigurationError):
    """A plugin is not installed, is offered twice, or cannot be used; the sentence says which, and what to do."""


#: What an object of each group must have, any one of each set, to be what it says it is.
_NEEDS: Final[dict[Group, tuple[frozenset[str], ...]]] = {
    Group.MIDDLEWARE: (frozenset({"consume", "publish"}),),
    Group.HOOKS: (frozenset({"__call__"}),),
    Group.CODECS: (frozenset({"decode"}), frozenset({"encode"})),
    Group.COMMANDS: (frozenset({"invoke"}),),
}


def installed(group: Group | None = None) -> tuple[Plugin, ...]:
    """Return every plugin of the installed distributions, or those of one group, by group and name; imports none of them."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - 15 ms that an application without plugins need not pay

    groups = (group,) if group else tuple(Group)
    found = {_plugin(kind, entry) for kind in groups for entry in entry_points(group=kind.value)}
    return tuple(sorted(found, key=lambda plugin: (plugin.group.value, plugin.name, plugin.distribution)))


def find(group: Group, name: str) -> Plugin:
    """Return the one plugin of this name. Raises `PluginError` where none, or more than one distribution, offers it."""
    offered = installed(group)
    matching = [plugin for plugin in offered if plugin.name == name]
    if not matching:
        names = ", ".join(sorted({plugin.name for plugin in offered})) or "none"
        raise PluginError(
            f"No installed distribution offers {name!r} in {group.value}; installed there: {names}. "
            "Install the distribution that does into this environment, or check the spelling."
        )
    if len(matching) > 1:
        offers = " and ".join(map(str, matching))
        raise PluginError(f"{name!r} in {group.value} is offered twice: {offers}. Uninstall one of them.")
    return matching[0]


def load(plugin: Plugin) -> Any:
    """Return what the plugin is: the object it names, or where that is a class, one made without arguments.

    Raises `PluginError` with the cause: the import failed, the object is missing or cannot be made, or its group needs another.
    """
    from importlib.metadata import EntryPoint  # noqa: PLC0415 - as in `installed`

    try:
        loaded = EntryPoint(plugin.name, plugin.target, plugin.group.value).load()
        made = loaded() if isinstance(loaded, type) else loaded
    except Exception as error:
        raise PluginError(
            f"Plugin {plugin} cannot be loaded: {type(error).__name__}: {error}. "
            f"Repair or uninstall {plugin.distribution}, or do without {plugin.name!r}."
        ) from error
    missing = [needed for needed in _NEEDS[plugin.group] if not any(hasattr(made, name) for name in needed)]
    if missing:
        said = ", ".join(" or ".join(sorted(needed)) for needed in missing)
        raise PluginError(f"Plugin {plugin} is no plugin of {plugin.group.value}: {type(made).__qualname__} has no {said}.")
    return made


def named(group: Group, wanted: Iterable[Any]) -> tuple[Any, ...]:
    """Return the objects wanted, in order, with each name replaced by the plugin that is installed under it."""
    return tuple(load(find(group, each)) if isinstance(each, str) else each for each in wanted)


def _plugin(group: Group, entry: "EntryPoint") -> Plugin:
    distribution = entry.dist
    return Plugin(
        group=group,
        name=entry.name,
        target=entry.value,
        distribution=distribution.name if distribution else "an unnamed distribution",
        version=distribution.version if distribution else "",
    )
