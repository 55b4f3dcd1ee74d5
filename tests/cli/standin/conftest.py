"""The packages on the stand-in library, as for the stand-in's own tests."""

from tests.standin.conftest import package_search

__all__ = ("package_search",)
