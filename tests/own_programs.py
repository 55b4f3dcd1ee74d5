"""Runs a module of the tests as a program of its own: a process that is killed, or that forks."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ("run_module",)


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
