"""URLs of queue managers that are served over TCP: their addresses, and addresses to which no password is sent."""

from pathlib import Path

import pytest

from mqflow.app.channels.location import open_queue_manager
from mqflow.app.channels.served_urls import served_at
from mqflow.app.config.settings import Settings
from mqflow.app.errors import ConfigurationError
from mqflow.mqi.errors import MQIError


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


def test_the_password_file_of_settings_made_by_hand_is_read_when_the_application_connects(tmp_path: Path) -> None:
    file = tmp_path / "missing"
    manager = open_queue_manager("embedded+tcp://localhost/QM1", settings=Settings(user="app", password_file=str(file)))

    with pytest.raises(MQIError, match=rf"MQCONNX \(QM1\) failed: .* \(2195\)\. The password cannot be read: .*{file}"):
        manager.connect()
