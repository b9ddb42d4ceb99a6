"""The ``reliquary`` command line. Importing it imports no torch, vllm, bittensor or fastapi."""


def main() -> None:
    """Run the command that the arguments name.

    Worker processes import what started them without running it: they need no command line.
    """
    from scripts.cli.app import main as run

    run()
