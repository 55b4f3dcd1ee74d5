"""The groups of a user on this system."""

import os

import pytest

from mqflow.embedded.state.users import login, system_groups

grp = pytest.importorskip("grp")


def test_the_groups_of_this_user_are_those_of_the_system() -> None:
    import pwd  # noqa: PLC0415 - not on Windows, and this module is skipped there

    name = pwd.getpwuid(os.getuid()).pw_name

    assert grp.getgrgid(pwd.getpwnam(name).pw_gid).gr_name in system_groups(name)


@pytest.mark.parametrize("user", ["", "nobody-has-this-name", "a\0b"])
def test_a_user_that_the_system_does_not_know_is_in_no_group(user: str) -> None:
    assert frozenset() == system_groups(user)


def test_the_user_of_this_process_fits_into_a_message() -> None:
    assert 0 < len(login()) <= 12
