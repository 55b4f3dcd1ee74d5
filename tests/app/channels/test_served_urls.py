"""URLs of queue managers that are served over TCP: their addresses, and addresses to which no password is sent."""

import pytest

from mqflow.app.channels.served_urls import served_at
from mqflow.app.errors import ConfigurationError


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "127.0.0.1:1414,localhost"])
def test_without_tls_it_is_on_this_machine(host: str) -> None:
    assert not served_at(f"embedded+tcp://{host}/QM1").tls


@pytest.mark.parametrize("host", ["mq.example", "192.0.2.1", "127.0.0.1,mq.example", "[2001:db8::1]:1414"])
def test_without_tls_nothing_is_sent_to_another_machine(host: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"everybody on the network can read passwords and messages: use embedded\+tls"
    ):
        served_at(f"embedded+tcp://{host}/QM1")

    assert served_at(f"embedded+tls://{host}/QM1").tls
