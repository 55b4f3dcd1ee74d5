"""A child process with each of the packages on the stand-in library, as for the stand-in's own tests."""

from tests.standin.conftest import package, package_search, program, pytest_pyfunc_call

__all__ = ("package", "package_search", "program", "pytest_pyfunc_call")
