"""Every get of mqflow asks for all properties: otherwise PROPCTL(COMPAT), the default, removes some properties."""

import re
from pathlib import Path

import pytest

import mqflow

ROOT = Path(mqflow.__file__).parent
FLOORS = ("runtime", "app", "cli", "testing", "pipeline")
GETTING = sorted(
    path.relative_to(ROOT).as_posix()
    for floor in FLOORS
    for path in (ROOT / floor).rglob("*.py")
    if re.search(r"\bGetOptions\(\s*(?:#[^\n]*\n\s*)?options=", path.read_text())
)


@pytest.mark.parametrize("module", GETTING)
def test_a_module_that_gets_asks_for_properties_as_they_are(module: str) -> None:
    assert "PROPERTIES_FORCE_MQRFH2" in (ROOT / module).read_text()


def test_the_modules_that_get_are_found() -> None:
    assert {
        "runtime/listener/worker.py",
        "runtime/connection/unstuck_messages.py",
        "runtime/dead_letters/dead_letter_handler.py",
        "cli/messages/get.py",
    } <= set(GETTING)
