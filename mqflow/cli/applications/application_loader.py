"""Imports the application that `MODULE:APP` names on the command line. If this fails, explains the mistake in the name."""

import importlib
import sys
from pathlib import Path
from traceback import extract_tb

from msgspec.structs import replace

from mqflow.app.application import App
from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError
from mqflow.policy.did_you_mean import closest

__all__ = ("ImportFailedError", "load_application")


class ImportFailedError(Exception):
    """The user's module raised an error while Python imported it."""


def load_application(application: str, **given: str | float | None) -> App:
    """Return the application that ``module:app`` names. Python searches the current folder first.

    `given` has settings by name, such as `url` or `drain_s`. A setting that is None does not change the application's settings.
    Raises `ConfigurationError` if there is no such module, or if it has no `App` of that name, or if the module itself raises
    this error. Raises `ImportFailedError`, with the line, for any other error inside the module.
    """
    module_name, _, name = application.partition(":")
    _check_module_name(application, module_name, name)
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ConfigurationError:
        raise
    except SystemExit as error:
        text = f"{application!r} cannot be imported: {_line_of(error)}the module ends the program (SystemExit: {error})."
        raise ImportFailedError(text) from error
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            close = closest(module_name, [file.stem for file in Path.cwd().glob("*.py")])
            meant = f" Did you mean {close}?" if close else ""
            text = f"{application!r}: there is no module {error.name} in {Path.cwd()} or on Python's path.{meant}"
            raise ConfigurationError(text) from error
        text = f"{application!r} cannot be imported: {_line_of(error)}{type(error).__name__}: {error}."
        raise ImportFailedError(text) from error
    found = getattr(module, name or "app", None)  # the user has typed the name, so it can be any text
    if not isinstance(found, App):
        apps = [known for known, value in vars(module).items() if isinstance(value, App)]
        text = f"it has {', '.join(f'{module_name}:{known}' for known in apps)}" if apps else "it has no App at all"
        raise ConfigurationError(f"{application!r}: {module_name} has no App called {name or 'app'}; {text}.")
    arguments = {key: value for key, value in given.items() if value is not None}
    if found.settings is None:
        found.settings = load(arguments)
    else:
        sources = {**found.settings.sources, **dict.fromkeys(arguments, "an argument")}
        found.settings = replace(found.settings, **arguments, sources=sources)
    return found


def _check_module_name(application: str, module_name: str, name: str) -> None:
    if not all(part.isidentifier() for part in module_name.split(".")) or module_name.endswith(".py"):
        guess = ".".join(part for part in Path(module_name.removesuffix(".py")).parts if part.isidentifier()) or "app"
        raise ConfigurationError(
            f"{application!r}: before the colon comes a module name, as in `import`, not a file. "
            f"Did you mean {guess}:{name or 'app'}?"
        )


def _line_of(error: BaseException) -> str:
    """Return the last line of the user's own files in the traceback, to be put before an error text; or an empty text.

    A `SyntaxError` already names its line.
    """
    if isinstance(error, SyntaxError):
        return ""
    own = [frame for frame in extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(Path.cwd())]
    own = [frame for frame in own if "site-packages" not in frame.filename]
    return f"{Path(own[-1].filename).relative_to(Path.cwd())}, line {own[-1].lineno}: " if own else ""
