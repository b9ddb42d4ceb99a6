import socket
from pathlib import Path

import pytest

from scripts.up.layout import (
    HOST,
    DataLock,
    Layout,
    NetworkError,
    free_port,
)


def test_a_data_folder_serves_one_network_at_a_time(tmp_path: Path):
    layout = Layout(tmp_path / "data")
    layout.make()
    first, second = DataLock(layout), DataLock(layout)
    first.take()
    with pytest.raises(NetworkError, match=r"in use by another network.*--data"):
        second.take()
    first.give_back()
    second.take()
    second.give_back()


def test_a_data_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NetworkError, match="cannot use the data folder"):
        Layout(tmp_path / "file" / "data").make()


def test_a_port_in_use_is_named():
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(NetworkError, match=f"port {port} cannot be used.*--port"):
            free_port(port)


def test_a_free_port_is_found():
    port = free_port(0)
    assert free_port(port) == port
