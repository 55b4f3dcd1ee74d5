"""Whole processes: how soon the first durable message is handled, how much memory a consumer has, what the import costs.

Each figure is the median over fresh interpreters.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

import msgspec

__all__ = ("first_message_ms", "import_ms", "rss_mb")

_CONSUMER: Final = Path(__file__).with_name("consumer.py")
_ROOT: Final = Path(__file__).parent.parent


class _Told(msgspec.Struct):
    """What the consumer process prints at its end."""

    first_message_at: float
    rss_kb: int


def first_message_ms(processes: int) -> float:
    """Return the time from starting a process to its first durable message handled, in milliseconds."""
    return median(_first_message_ms() for _ in range(processes))


def rss_mb(processes: int, messages: int = 1_000) -> float:
    """Return the memory of a consumer that has handled so many durable messages, in MB (10^6 bytes)."""
    return median(_consume(messages).rss_kb for _ in range(processes)) * 1_024 / 1e6


def import_ms(statement: str, processes: int) -> float:
    """Return how long a process takes that does nothing else, in milliseconds."""
    return median(_process_ms(statement) for _ in range(processes))


def _first_message_ms() -> float:
    started = time.time()
    return (_consume(1).first_message_at - started) * 1e3


def _consume(messages: int) -> _Told:
    with tempfile.TemporaryDirectory(prefix="mqflow-bench-", dir=Path.cwd()) as folder:
        command = [sys.executable, str(_CONSUMER), f"{folder}/data", str(messages)]
        done = subprocess.run(command, check=True, capture_output=True, env=_environment())
    return msgspec.json.decode(done.stdout, type=_Told)


def _process_ms(statement: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, env=_environment())
    return (time.perf_counter() - started) * 1e3


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(_ROOT)}
