"""What Python imports first in every program that `mqflow standin run` starts: puts the stand-in library in place.

Then hands over to the `sitecustomize` that would have been imported without it, if there is one.
"""

# ruff: noqa: INP001 - a folder on the path of other programs, not a package of ours
import importlib.util
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

try:
    from mqflow.cli.standin_start import start
except ImportError as error:
    os.write(2, f"mqflow standin: {sys.executable} cannot import mqflow: {error}. Install it there too.\n".encode())
    os._exit(1)  # as `standin_start.give_up`, which is not there

start()

_elsewhere = [folder for folder in sys.path if Path(folder).resolve() != Path(__file__).resolve().parent]
if (_spec := PathFinder.find_spec("sitecustomize", _elsewhere)) is not None and _spec.loader is not None:
    _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
