import socket
import stat
import subprocess
from pathlib import Path

import pytest

from scripts.up.layout import (
    HOST,
    DataLock,
    Layout,
    NetworkError,
    free_port,
    read_environment,
    write_environment,
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


def test_the_environment_file_is_private_and_a_shell_reads_it(tmp_path: Path):
    path = tmp_path / "reliquary.env"
    values = {"RELIQUARY_API_KEY": "rlq_0", "ODD": "it's $HOME; `x`"}
    write_environment(path, {"OLD": "1"})
    write_environment(path, values)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_environment(path) == values
    shell = subprocess.run(
        ["/bin/sh", "-c", f'. {path}; printf %s "$ODD"'], capture_output=True, text=True, check=True
    )
    assert shell.stdout == values["ODD"]
    assert read_environment(tmp_path / "absent") == {}
