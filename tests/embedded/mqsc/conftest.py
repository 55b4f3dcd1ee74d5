"""What the tests of MQSC share."""

import pytest

from tests.embedded.mqsc.definitions import Definitions


@pytest.fixture
def administration() -> Definitions:
    return Definitions()
