"""Errors before Spark starts: no Java, an old Java, no PySpark. Importing the pipeline loads no Spark. Columns are quick."""

import subprocess
import sys
from importlib import metadata
from pathlib import Path
from socketserver import TCPServer
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from mqflow.cli.pipeline.spark_session import started
from mqflow.pipeline import JavaError, SparkMissingError, session
from mqflow.pipeline.session import check_java, check_spark, end_quietly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def java(folder: Path, said: str) -> dict[str, str]:
    (folder / "bin").mkdir()
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\n")
    program.chmod(0o755)
    return {"JAVA_HOME": str(folder), "PATH": ""}


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "21" 2023-09-19', 21),
        ('Picked up X\nopenjdk version "25-ea"', 25),
    ],
)
def test_a_java_that_spark_runs_on_is_recognised(tmp_path: Path, said: str, version: int) -> None:
    assert version == check_java(java(tmp_path, said))


@pytest.mark.parametrize(("said", "version"), [('openjdk version "1.8.0_402"', 8), ('openjdk version "11.0.22" 2024', 11)])
def test_the_error_of_an_old_java_names_its_version_and_the_needed_one(tmp_path: Path, said: str, version: int) -> None:
    with pytest.raises(JavaError, match=f"is Java {version}, and Spark needs 17 or later. Set JAVA_HOME"):
        check_java(java(tmp_path, said))


def test_a_missing_java_says_what_to_do_and_what_needs_none(tmp_path: Path) -> None:
    for environment in ({"PATH": str(tmp_path)}, {"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""}):
        with pytest.raises(JavaError, match=r"There is no Java .* needs Java 17 or later.*`mqflow land` needs no Java"):
            check_java(environment)


def test_a_program_that_prints_no_version_of_java_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JavaError, match="printed no version"):
        check_java(java(tmp_path, "hello"))


def test_an_error_names_a_java_that_the_user_may_not_run(tmp_path: Path) -> None:
    environment = java(tmp_path, "hello")
    (tmp_path / "bin" / "java").write_text("neither a program nor a script")

    with pytest.raises(JavaError, match=r"bin/java -version did not run .*Set JAVA_HOME to another"):
        check_java(environment)


@pytest.mark.parametrize("version", ["3.5.1", "4.1.4", "5.0.0"])
def test_another_pyspark_is_refused_by_its_version(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(metadata, "version", lambda _: version)

    with pytest.raises(SparkMissingError, match=f"PySpark {version} is installed; mqflow's sources need 4.2"):
        check_spark()


def test_a_missing_pyspark_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda _: None)

    with pytest.raises(SparkMissingError, match=r"pip install 'mqflow\[spark\]'"):
        check_spark()


def test_workers_of_another_python_or_machine_are_not_asked_for_a_module_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(python: str, master: str | None) -> bool:
        monkeypatch.setenv("PYSPARK_PYTHON", python)
        return "spark.python.daemon.module" in session._local(master)

    assert asked(sys.executable, None)
    assert not asked("/usr/bin/python3", None)
    assert not asked(sys.executable, "spark://host:7077")


@pytest.mark.parametrize(("given", "noted"), [((), "false"), (("spark.python.sql.dataFrameDebugging.enabled=true",), "true")])
def test_a_command_notes_no_line_of_a_program_for_each_column_by_default(
    monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], noted: str
) -> None:
    asked: dict[str, str] = {}

    def no_session(*_: object, config: dict[str, str], **__: object) -> None:
        asked.update(config)
        raise SparkMissingError("none is needed here")

    monkeypatch.setattr("mqflow.pipeline.spark_session", no_session)
    monkeypatch.setattr("mqflow.cli.pipeline.spark_session._running", lambda: None)

    with pytest.raises(SparkMissingError), started("test", master=None, remote=None, conf=given):
        pass

    assert {"spark.python.sql.dataFrameDebugging.enabled": noted} == asked


@pytest.mark.parametrize(("error", "printed"), [(EOFError(), False), (ConnectionResetError(), False), (ValueError(), True)])
def test_an_end_of_the_jvm_before_the_command_prints_no_traceback_of_pyspark(
    error: Exception, *, printed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(*_: object) -> None:
        raise error

    with TCPServer(("127.0.0.1", 0), read, bind_and_activate=False) as server:  # type: ignore[arg-type]  # a handler that fails
        end_quietly(SimpleNamespace(sparkContext=SimpleNamespace(_accumulatorServer=server)))  # type: ignore[arg-type]  # as much as it uses
        try:
            read()
        except Exception:  # noqa: BLE001 - as a server catches the errors of its handler
            server.handle_error(server.socket, ("127.0.0.1", 1))

    assert printed == ("Traceback" in capsys.readouterr().err)


def test_a_session_over_spark_connect_gets_the_settings_of_conf_too(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, str] = {}
    connected = SimpleNamespace(conf=SimpleNamespace(set=settings.__setitem__))

    class Builder:
        def __getattr__(self, _: str) -> Any:
            return lambda *_: self

        def config(self, key: str, value: str) -> "Builder":
            settings[key] = value
            return self

        def getOrCreate(self) -> object:  # noqa: N802 - Spark's name
            return connected

    monkeypatch.setattr("pyspark.sql.SparkSession.builder", Builder())
    monkeypatch.setattr(session, "register", lambda _: None)

    session.spark_session(remote="sc://host", config={"spark.sql.shuffle.partitions": "7"})

    assert ("7", "UTC") == (settings["spark.sql.shuffle.partitions"], settings["spark.sql.session.timeZone"])


def test_an_operation_on_a_column_asks_the_jvm_for_no_class(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> None:
    from py4j.java_gateway import JVMView  # type: ignore[import-untyped]  # noqa: PLC0415 - it has no types; as below
    from pyspark.sql import functions as f  # noqa: PLC0415 - only this test loads Spark

    asked: list[str] = []
    find = JVMView.__getattr__

    def noted(view: JVMView, name: str) -> object:
        asked.append(name)
        return find(view, name)

    monkeypatch.setattr(JVMView, "__getattr__", noted)

    made = f.greatest(f.col("a"), f.lit(1)).isin("x", "y") & (f.col("b").cast("int") > 2)

    assert "greatest(a, 1)" in str(made)
    assert [] == asked
    assert spark.range(2).where(f.col("id") > 0).count() == 1


def test_the_pipeline_and_its_command_load_no_spark_until_they_run() -> None:
    loaded = "{'pyspark', 'pandas', 'pyarrow', 'deltalake'} & set(sys.modules)"
    script = f"import sys, mqflow.pipeline, mqflow.cli.pipeline.spark, mqflow.cli.pipeline.spark_tables\nprint(*{loaded})"

    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=250)

    assert "" == shown.stdout.strip()
