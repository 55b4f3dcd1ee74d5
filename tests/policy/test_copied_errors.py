"""Errors of the decisions can be copied and pickled: a process that reads a table for another process reports them."""

import copy
import pickle

import pytest

from mqflow.policy.channels.client_ini import ClientConfigurationError
from mqflow.policy.channels.table import ChannelTableError
from mqflow.policy.dead_letters.actions import UnjudgedError
from mqflow.policy.dead_letters.rules import Problem, RulesError

ERRORS = [
    pytest.param(ChannelTableError("AMQCLCHL.json", "no name.", path="$.channel[0]"),
        "Channel table AMQCLCHL.json, at $.channel[0]: no name."),
    pytest.param(ClientConfigurationError("mqclient.ini", "no number.", line=7), "mqclient.ini, line 7: no number."),
    pytest.param(ClientConfigurationError("MQSERVER", "no host."), "MQSERVER: no host."),
    pytest.param(UnjudgedError("line 1", KeyError("tenant")), "line 1 raised KeyError: 'tenant'"),
    pytest.param(RulesError([Problem("No ACTION.", 1, 2, "X", 8747)]),
        "There is 1 error in the rules table, and no message was touched.\nline 1, column 2: AMQ8747: No ACTION."),
]  # fmt: skip


@pytest.mark.parametrize(("error", "text"), ERRORS, ids=[type(each.values[0]).__name__ for each in ERRORS])
def test_a_copy_of_an_error_has_the_same_text_and_fields(error: Exception, text: str) -> None:
    for each in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301 - our own bytes
        assert (text, vars(error).keys()) == (str(each), vars(each).keys())
