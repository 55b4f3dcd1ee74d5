"""Packages that are missing, cannot be loaded, or are too old: each error names the remedy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mqflow.bindings.connect_options import ClientPackageError
from mqflow.bindings.dialects import base
from tests.client_packages import ROOT

AGAIN = "ibmmq is installed, but cannot be loaded: {}. Install it again: pip install --force-reinstall ibmmq."
_LOAD = """
import sys
from mqflow.bindings.dialects import base as dialects
from mqflow.bindings.connect_options import ClientPackageError
try:
    print(dialects.{call}.name)
except ClientPackageError as error:
    print(error)
"""


def loaded(call: str, *folders: Path) -> str:
    """Load a package in a new process, from these folders first, and return the output."""
    script = _LOAD.format(call=call)
    search = os.pathsep.join(map(str, (*folders, ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | {"PYTHONPATH": search}, capture_output=True, text=True, check=True,
        cwd=folders[0] if folders else ROOT,
    )  # fmt: skip
    return done.stdout.strip()


def package(folder: Path, name: str, text: str) -> Path:
    """Make a package of this text."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text(text)
    return folder


PYMQI = "class pymqe:\n    __mqlevels__ = {levels}\n    MQCONNX = MQINQ = MQSET = MQDISC = MQOPEN = MQCLOSE = MQPUT = None\n"
PYMQI += "    MQPUT1 = MQGET = MQCMIT = MQBACK = MQSUB = None\n"


def test_a_package_that_is_missing_says_how_to_install_it() -> None:
    said = loaded("load('pymqi')")

    if said == "pymqi":
        pytest.skip("pymqi is installed")
    assert said == 'pymqi is not installed: pip install "mqflow[pymqi]".'


def test_without_any_package_there_is_no_way_to_ibm_mq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "installed", lambda _: False)

    with pytest.raises(ClientPackageError, match=r'Neither pymqi nor ibmmq is installed.*pip install "mqflow'):
        base.load_any()


def test_a_client_library_that_is_missing_is_named_and_not_the_extension(tmp_path: Path) -> None:
    """ibmmq says ``No module named 'ibmmqc'``, whatever the dynamic linker said."""
    extension = (
        "try:\n    raise ImportError('libmqm_r.so: cannot open shared object file')\nexcept ImportError:\n    import ibmmqc\n"
    )

    said = loaded("load('ibmmq')", package(tmp_path, "ibmmq", extension))

    assert said.startswith(
        "ibmmq is installed, but cannot be loaded: libmqm_r.so: cannot open shared object file. It needs IBM's"
    )
    assert "No module named" not in said


def test_an_extension_that_does_not_fit_its_package_says_so(tmp_path: Path) -> None:
    """ibmmq raises EnvironmentError where C and Python parts are of different versions."""
    said = loaded("load('ibmmq')", package(tmp_path, "ibmmq", "raise EnvironmentError('Mismatch between C and Python')"))

    assert AGAIN.format("Mismatch between C and Python") == said.strip()


def test_a_module_that_a_package_needs_is_not_called_ibm_s_client_library(tmp_path: Path) -> None:
    said = loaded("load('ibmmq')", package(tmp_path, "ibmmq", "import module_of_nobody"))

    assert AGAIN.format("No module named 'module_of_nobody'") == said.strip()


def test_a_pymqi_that_was_built_for_an_old_client_says_so(tmp_path: Path) -> None:
    said = loaded("load('pymqi')", package(tmp_path, "pymqi", PYMQI.format(levels=("5.3", "6.0"))))

    assert said.startswith("This pymqi was built for IBM MQ 5.3, 6.0, which is too old")


def test_an_ibmmq_that_was_built_for_an_old_client_says_so(tmp_path: Path) -> None:
    text = "class ibmmqc:\n    __strucversions__ = {'cno': 5, 'cd': 10, 'od': 4, 'gmo': 4, 'pmo': 3, 'sco': 5}\n"

    said = loaded("load('ibmmq')", package(tmp_path, "ibmmq", text))

    assert said.startswith("This ibmmq was built for an IBM MQ client that is too old (MQCNO, MQCD)")


def test_auto_takes_pymqi_where_it_is_installed(tmp_path: Path) -> None:
    folder = package(tmp_path, "pymqi", PYMQI.format(levels=("6.0", "7.0")))

    assert "pymqi" == loaded("load_any()", folder)


def test_importing_mqflow_loads_no_package() -> None:
    script = (
        "import sys, mqflow, mqflow.app.channels.location\n"
        "print([name for name in sys.modules if name.startswith(('pymqi', 'ibmmq'))])"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)

    assert "[]" == done.stdout.strip()
