"""Runs a module or a function of the tests as a program of its own: a process that is killed, or that forks."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import msgspec

from tests.leaving import end_by_exception

__all__ = ("run_function", "run_module")

T = TypeVar("T")


def run_module(
    module: str, *arguments: object, timeout_s: float = 250, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a module in the folder of the repository, and return its output, whatever its exit code is.

    `environment` adds variables to the environment of this process.
    """
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)], cwd=Path(__file__).parents[1],
        env=os.environ | (environment or {}), capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip


def run_function(function: Callable[..., T], kind: type[T], **given: object) -> T:
    """Call a function of a module in a process of its own, which is free to fork, and return its result."""
    called = (function.__module__, function.__name__, msgspec.json.encode(given).decode())
    ended = run_module("tests.own_programs", *called, timeout_s=600)
    assert 0 == ended.returncode, ended.stderr
    return msgspec.json.decode(ended.stdout, type=kind)


if __name__ == "__main__":
    end_by_exception()
    result = getattr(import_module(sys.argv[1]), sys.argv[2])(**msgspec.json.decode(sys.argv[3]))
    sys.stdout.write(msgspec.json.encode(result).decode())
