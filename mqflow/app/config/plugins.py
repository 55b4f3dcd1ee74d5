"""Finds the plugins that installed distributions offer to mqflow through entry points, and loads them by name.

To list the plugins, mqflow reads metadata and imports nothing. A plugin takes no part in the handling of messages until an
application names it as middleware, hook or codec. A plugin that cannot be loaded is an error with the reason. A command is
loaded only when it is called, so a broken command does not break other commands.
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
    """The kinds of plugins. The value is the name of the entry point group."""

    MIDDLEWARE = "mqflow.middleware"
    HOOKS = "mqflow.hooks"
    CODECS = "mqflow.codecs"
    COMMANDS = "mqflow.commands"


class Plugin(Struct, frozen=True, kw_only=True):
    """One entry point of an installed distribution."""

    group: Group
    #: The name by which applications and commands refer to the plugin.
    name: str
    #: The place of the plugin's object: "module:object".
    target: str
    distribution: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} ({self.target}, from {self.distribution} {self.version})"


class PluginError(ConfigurationError):
    """A plugin is not installed, is offered by two distributions, or cannot be used. The text names it, and says what to do."""


#: The attributes that an object of a group must have: at least one attribute of each set.
_NEEDS: Final[dict[Group, tuple[frozenset[str], ...]]] = {
    Group.MIDDLEWARE: (frozenset({"consume", "decided", "publish"}),),
    Group.HOOKS: (frozenset({"__call__"}),),
    Group.CODECS: (frozenset({"decode"}), frozenset({"encode"})),
    Group.COMMANDS: (frozenset({"invoke"}),),
}


def installed(group: Group | None = None) -> tuple[Plugin, ...]:
    """Return the plugins of all installed distributions, or of one group, sorted by group and name. Imports no plugin."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - 15 ms, and an application without plugins needs none

    groups = (group,) if group else tuple(Group)
    found = {_plugin(kind, entry) for kind in groups for entry in entry_points(group=kind.value)}
    return tuple(sorted(found, key=lambda plugin: (plugin.group.value, plugin.name, plugin.distribution)))


def find(group: Group, name: str) -> Plugin:
    """Return the plugin with this name. Raises `PluginError` if no distribution offers it, or if several do."""
    offered = installed(group)
    matching = [plugin for plugin in offered if plugin.name == name]
    match matching:
        case [plugin]:
            return plugin
        case []:
            names = ", ".join(sorted({plugin.name for plugin in offered})) or "none"
            raise PluginError(
                f"No installed distribution offers {name!r} in {group.value}; installed there: {names}. "
                "Install the distribution of the plugin into this environment, or check the spelling."
            )
        case _:
            offers = " and ".join(map(str, matching))
            raise PluginError(f"{name!r} in {group.value} is offered twice: {offers}. Uninstall one of them.")


def load(plugin: Plugin) -> Any:  # `Any`: the group says which type the object has
    """Return the object of the plugin. If the entry point names a class, return an instance, made without arguments.

    Raises `PluginError` with the cause: the import failed, the object is missing or cannot be made, or it lacks attributes that
    its group needs.
    """
    from importlib.metadata import EntryPoint  # noqa: PLC0415 - as in `installed`

    try:
        loaded = EntryPoint(plugin.name, plugin.target, plugin.group.value).load()
        made = loaded() if isinstance(loaded, type) else loaded
    except (Exception, SystemExit) as error:  # also SystemExit: an import that ends the process is broken
        raise PluginError(
            f"Plugin {plugin} cannot be loaded: {type(error).__name__}: {error}. "
            f"Repair or uninstall {plugin.distribution}, or do without {plugin.name!r}."
        ) from error
    # `hasattr`: the object comes from another distribution and can have any type.
    missing = [needed for needed in _NEEDS[plugin.group] if not any(hasattr(made, name) for name in needed)]
    if missing:
        names = ", ".join(" or ".join(sorted(needed)) for needed in missing)
        raise PluginError(f"Plugin {plugin} does not fit {plugin.group.value}: {type(made).__qualname__} has no {names}.")
    return made


def named(group: Group, wanted: Iterable[Any]) -> tuple[Any, ...]:
    """Return the wanted objects, in order. A text is the name of a plugin, and is replaced by the plugin's object."""
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
