"""The places of a cluster on one machine: a Python without mqflow, a zip of mqflow, and executors with a root of their own."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pyspark

import mqflow
from tests.pipeline import jvm

__all__ = ("bare_environment", "can_unshare", "java_of_other_roots", "mqflow_zip", "spark_home", "spark_program")

PROGRAM = "from mqflow.cli.main import main\n\nmain()\n"


def mqflow_zip(folder: Path) -> Path:
    """Zip the package, as `zip -r mqflow.zip mqflow` does."""
    package, path = Path(mqflow.__file__).parent, folder / "mqflow.zip"
    with zipfile.ZipFile(path, "w") as file:
        for each in sorted(package.rglob("*")):
            if each.is_file() and "__pycache__" not in each.parts:
                file.write(each, each.relative_to(package.parent))
    return path


def bare_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a node whose Python has the packages that mqflow needs, but no mqflow and no active venv."""
    python = folder / "python3"
    # Without `site`, no .pth file of the packages leads to mqflow's sources.
    python.write_text(f'#!/bin/sh\nexec "{Path(sys.executable).resolve()}" -S "$@"\n')
    python.chmod(0o755)
    packages = {str(Path(module.__file__ or "").parents[1]) for module in (pyspark, msgspec)}
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join(sorted(packages)),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "JDK_JAVA_OPTIONS": jvm.options(),
        **{name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ},
        **{name: value for name, value in os.environ.items() if name.startswith("AWS_")},
    }


def spark_program(name: str) -> str:
    """Return a program of PySpark's own distribution: `spark-submit`, `spark-class`."""
    return str(Path(pyspark.__file__).parent / "bin" / name)


def can_unshare() -> bool:
    """Whether this user can give a process a mount namespace of its own."""
    if shutil.which("unshare") is None:
        return False
    asked = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return not subprocess.run(asked, capture_output=True, check=False).returncode


def java_of_other_roots(folder: Path, hidden: Path) -> Path:
    """Return a JAVA_HOME whose Java runs in a mount namespace of its own, in which the folder `hidden` is empty."""
    home = Path(os.environ.get("JAVA_HOME", "") or Path(shutil.which("java") or "java").resolve().parents[1])
    java = folder / "other" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f'#!/bin/sh\nexec unshare -rm sh -c \'mount -t tmpfs none {hidden} && exec "$0" "$@"\' {home}/bin/java "$@"\n'
    )
    java.chmod(0o755)
    return java.parent.parent


def spark_home(folder: Path) -> Path:
    """Return a SPARK_HOME with PySpark's programs, in which Spark's workers may write."""
    home, installed = folder / "spark", Path(pyspark.__file__).parent
    home.mkdir()
    for each in ("bin", "jars", "python", "sbin"):
        if (installed / each).exists():
            (home / each).symlink_to(installed / each)
    return home
