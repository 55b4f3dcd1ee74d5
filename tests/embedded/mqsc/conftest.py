"""The fixtures of the tests of MQSC."""

import pytest

from tests.embedded.mqsc.definitions import Definitions


@pytest.fixture
def administration() -> Definitions:
    return Definitions()
