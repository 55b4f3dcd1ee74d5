"""From `module:app` to the application. Imports what the user wrote, and says what is wrong with the words."""

import importlib
import sys
from pathlib import Path
from traceback import extract_tb
from typing import Any

from msgspec.structs import replace

from mqflow.app.application import App
from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError

__all__ = ("ImportFailedError", "application")


class ImportFailedError(Exception):
    """What the user wrote raised while it was imported."""


def application(target: str, **arguments: Any) -> App:
    """Return the application that ``module:app`` names, looked for in the current folder first; set to these arguments.

    Raises `ConfigurationError` where there is no such module, or no `App` of that name in it, or where it says so itself, and
    `ImportFailedError` with the line of any other error inside the module.
    """
    module_name, _, name = target.partition(":")
    if not all(part.isidentifier() for part in module_name.split(".")) or module_name.endswith(".py"):
        meant = ".".join(part for part in Path(module_name).with_suffix("").parts if part.isidentifier()) or "app"
        raise ConfigurationError(
            f"{target!r}: what stands before the colon is a module, as `import` names it, and no file: {meant}:{name or 'app'}?"
        )
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ConfigurationError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            said = f"{target!r}: there is no module {error.name} in {Path.cwd()} or on Python's path."
            raise ConfigurationError(said) from error
        raise ImportFailedError(f"{target!r} cannot be imported: {_line_of(error)}{type(error).__name__}: {error}.") from error
    found = getattr(module, name or "app", None)
    if not isinstance(found, App):
        apps = [known for known, value in vars(module).items() if isinstance(value, App)]
        said = f"it has {', '.join(f'{module_name}:{known}' for known in apps)}" if apps else "it has no App at all"
        raise ConfigurationError(f"{target!r}: {module_name} has no App called {name or 'app'}; {said}.")
    given = {key: value for key, value in arguments.items() if value is not None}
    if found.settings is None:
        found.settings = load(given)
    else:
        sources = {**found.settings.sources, **dict.fromkeys(given, "an argument")}
        found.settings = replace(found.settings, **given, sources=sources)
    return found


def _line_of(error: Exception) -> str:
    """Return where in the user's own files it came to that, as a prefix; nothing where it was in none, or says it itself."""
    if isinstance(error, SyntaxError):
        return ""
    own = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(Path.cwd())]
    own = [frame for frame in own if "site-packages" not in frame.filename]
    return f"{Path(own[-1].filename).relative_to(Path.cwd())}, line {own[-1].lineno}: " if own else ""
