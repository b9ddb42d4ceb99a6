import stat
import subprocess
from pathlib import Path

import pytest

from scripts.batch.access import find_access
from scripts.batch.gateway import BatchError
from scripts.env_file import EnvFileError, read_environment, write_environment


def test_it_is_private_and_a_shell_reads_it(tmp_path: Path):
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


def test_comments_and_blank_lines_are_nothing(tmp_path: Path):
    path = tmp_path / "reliquary.env"
    path.write_text("# A comment, x=1\n\n  # B=2\nC=3\nD\n")
    assert read_environment(path) == {"C": "3"}


def test_one_that_cannot_be_read_is_named_with_its_line(tmp_path: Path):
    path = tmp_path / "reliquary.env"
    path.write_text("A=1\nB='x\n")
    with pytest.raises(EnvFileError, match=r"reliquary\.env, line 2: no closing quotation"):
        read_environment(path)
    with pytest.raises(BatchError, match="line 2"):
        find_access(None, None, path)
    with pytest.raises(EnvFileError, match="cannot be read"):
        read_environment(tmp_path)
