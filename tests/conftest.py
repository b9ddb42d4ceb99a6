"""Which tests run together on one process: those of a file, and the files of one network."""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

# They share the network of tests/e2e/conftest.py, which is slow to start.
ON_ONE_NETWORK = (
    "tests/e2e/test_clients.py",
    "tests/e2e/test_evaluation.py",
    "tests/e2e/test_network_faults.py",
)


class NetworkScheduling(LoadFileScheduling):
    """A file's tests stay together, and so do the files of one network."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return ON_ONE_NETWORK[0] if file in ON_ONE_NETWORK else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> NetworkScheduling | None:
    """Take the scheduling above where the command line asks for that of files."""
    return NetworkScheduling(config, log) if config.getoption("dist") == "loadfile" else None
