"""Type checkers of users know the type of every public name."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.rare  # strict pyright and mypy find a missing type in each run; this finds also one that they infer
def test_pyright_knows_the_type_of_every_exported_name(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "mqflow", tmp_path / "lib" / "mqflow")  # pyright does not check an editable installation
    path = os.pathsep.join((str(tmp_path / "lib"), sysconfig.get_path("purelib")))
    command = [sys.executable, "-m", "pyright", "--verifytypes", "mqflow", "--ignoreexternal", "--outputjson"]

    done = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, check=False)

    found = json.loads(done.stdout)["typeCompleteness"]
    exported = [each for each in found["symbols"] if each["isExported"]]
    assert len(exported) > 10_000
    assert [] == [each["name"] for each in exported if not each["isTypeKnown"]]
    assert 1 == found["completenessScore"]
