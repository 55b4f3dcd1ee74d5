"""The names of `mqflow`: each is loaded at its first use."""

import gc
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

import mqflow


@pytest.fixture
def collector() -> Iterator[None]:
    """Put the garbage collector back into its state after the test."""
    enabled = gc.isenabled()
    yield
    (gc.enable if enabled else gc.disable)()


def test_each_public_name_can_be_used_and_is_listed() -> None:
    assert None not in [getattr(mqflow, name) for name in mqflow.__all__]
    assert dir(mqflow) == sorted(mqflow.__all__)


def test_another_name_is_refused_by_its_name() -> None:
    with pytest.raises(AttributeError, match="module 'mqflow' has no attribute 'Listner'"):
        mqflow.__getattr__("Listner")


@pytest.mark.parametrize(("before", "enabled"), [(gc.enable, True), (gc.disable, False)], ids=["enabled", "disabled"])
@pytest.mark.parametrize("home", ["mqflow.app.application", "mqflow.no_such_module"])
def test_the_first_use_of_a_name_leaves_the_garbage_collector_as_it_was(
    monkeypatch: pytest.MonkeyPatch, home: str, before: Callable[[], None], collector: None, *, enabled: bool
) -> None:
    monkeypatch.setitem(mqflow._HOMES, "App", home)
    before()

    with suppress(ImportError):
        mqflow.__getattr__("App")

    assert gc.isenabled() is enabled
