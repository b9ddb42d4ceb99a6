"""Run a module that must not outlive the process which started it.

``python -m scripts.up.tether MODULE [ARGUMENT]...`` runs MODULE as ``python -m`` would. Its
standard input is a pipe whose other end the parent holds; when that end closes, however the parent
ended, the process asks itself to stop and, after a grace, ends with its whole process group.
"""

import os
import runpy
import signal
import sys
import threading
import time

GRACE_SECONDS = 30.0


def main() -> None:
    """Tie this process to its standard input, then become the module named on the command line."""
    module, *arguments = sys.argv[1:]
    threading.Thread(target=_stop_at_end_of_input, name="tether", daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _stop_at_end_of_input() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
