"""What every test may ask for."""

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Both event loops for tests marked anyio, always: a missing trio is an error here, not a shorter run."""
    return str(request.param)
