"""Which tests run together on one process, and what hypothesis asks of all of them."""

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

# Speed is measured by benchmarks; a busy machine fails no test.
settings.register_profile("reliquary", deadline=None)
settings.load_profile("reliquary")

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
