"""Python imports this file first in every program that `mqflow standin run` starts: it installs the stand-in library.

Then this file imports the `sitecustomize` that Python would otherwise import, if one exists.
"""

# ruff: noqa: INP001 - a folder on the path of other programs, not a package of mqflow
import importlib.util
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

try:
    from mqflow.cli.standin.installation import start
except ImportError:
    os.write(
        2, f"mqflow standin: {sys.executable} cannot import mqflow: {sys.exc_info()[1]}. Install mqflow there too.\n".encode()
    )
    os._exit(1)  # the same exit as `start.give_up`, which cannot be imported here

start()

_elsewhere = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
if (_spec := PathFinder.find_spec("sitecustomize", _elsewhere)) is not None and _spec.loader is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
