"""Python imports this file first in every program that `mqflow standin run` starts. It installs the stand-in library.

Then this file imports the `sitecustomize` that Python would have imported without it, if there is one.
"""

# ruff: noqa: INP001 - a folder for the path of other programs, not a package of mqflow
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
    os._exit(1)  # like `give_up` in `installation`, which cannot be imported here

start()

_elsewhere = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
if (_spec := PathFinder.find_spec("sitecustomize", _elsewhere)) is not None and _spec.loader is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
