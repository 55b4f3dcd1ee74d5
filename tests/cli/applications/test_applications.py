"""`mqflow run`, `explain`, `why` and `init`: from a new application to the story of a poison message."""

import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from mqflow.app.channels.location import locate
from mqflow.app.config.settings import load
from mqflow.cli.watching.control import _LOOP_ANSWER_S
from tests.cli.conftest import Run

APP = """
import os
from mqflow import App
app = App(name="orders")

@app.listener("ORDERS.IN")
async def book(order: dict[str, int]) -> None:
    os.write(1, f"booked {order['n']}\\n".encode())  # one write: workers share the pipe
"""


@pytest.fixture
def orders(queues: None, tmp_path: Path) -> None:
    """Write an application into the current folder."""
    (tmp_path / "orders_app.py").write_text(APP)


def run_until(words: str, times: int, *arguments: str) -> tuple[str, int]:
    """Run `mqflow run` until the words came so many times, then send SIGTERM; return the output and the exit code."""
    command = [sys.executable, "-m", "mqflow.cli", "run", "orders_app:app", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if words in line and sum(words in each for each in lines) == times:  # one signal, because a second one cuts off
                process.send_signal(signal.SIGTERM)
        return "".join(lines), process.wait()


def test_run_handles_the_messages_and_drains_at_sigterm(run: Run, orders: None) -> None:
    run("put", "ORDERS.IN", '{"n":1}', '{"n":2}')

    printed, code = run_until("booked", 2)

    assert 0 == code, printed
    assert 3 == run("get", "ORDERS.IN").exit_code


def test_other_commands_reach_the_queue_manager_of_an_application_that_runs(run: Run, orders: None) -> None:
    command = [sys.executable, "-m", "mqflow.cli", "run", "orders_app:app"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ) as process:
        assert process.stdout is not None
        try:
            lines = iter(process.stdout.readline, "")
            announced = next(line for line in lines if "Listening" in line)
            assert announced == "Listening on ORDERS.IN of embedded:./data?qmgr=QM1; Ctrl-C drains and stops.\n"
            put = run("put", "ORDERS.IN", '{"n":7}')
            assert 0 == put.exit_code, put.output
            assert any("booked 7" in line for line in lines)
            assert "ORDERS.IN" in run("mqsc", stdin="DISPLAY QLOCAL(ORDERS.IN) CURDEPTH").stdout
        finally:
            process.send_signal(signal.SIGTERM)

    assert 0 == process.returncode


def test_workers_share_the_queue_manager_and_all_drain_at_sigterm(run: Run, orders: None) -> None:
    run("put", "ORDERS.IN", *(f'{{"n":{n}}}' for n in range(20)))

    printed, code = run_until("booked", 20, "--workers", "2")

    assert 0 == code, printed
    assert sorted(range(20)) == sorted(int(n) for n in re.findall(r"booked (\d+)", printed))
    assert 3 == run("get", "ORDERS.IN").exit_code


def test_a_worker_that_cannot_start_stops_them_all(run: Run, orders: None, tmp_path: Path) -> None:
    (tmp_path / "orders_app.py").write_text(
        "import sys\nfrom mqflow import App\n" + APP + "\nif '.sock' in ' '.join(sys.argv): del app"  # in the workers
    )

    printed, code = run_until("never", 1, "--workers", "2", "--url", "embedded::memory:")

    assert 2 == code
    assert "has no App called app" in printed


def test_why_prints_the_story_of_a_poison_message(run: Run, orders: None) -> None:
    message_id = run("put", "ORDERS.IN", "no json", '{"n":1}').stdout.split()[0]
    run_until("booked", 1)

    story = run("why", message_id)

    assert 0 == story.exit_code, story.stderr
    assert "Delivery 1: book got it from ORDERS.IN (7 bytes)." in story.stdout
    assert "threshold 1 (BOTHRESH of ORDERS.IN)" in story.stdout
    assert "move it to ORDERS.BOQ: done." in story.stdout
    assert story.stdout == run("why", message_id, "--url", "embedded+unix:data/served.sock?qmgr=QM1").stdout


def test_browse_shows_why_a_message_is_on_the_backout_queue(run: Run, orders: None) -> None:
    run("put", "ORDERS.IN", "no json", '{"n":1}')
    run_until("booked", 1)

    shown = run("browse", "ORDERS.BOQ").stdout

    assert "It was moved here from ORDERS.IN (QM1)" in shown
    assert "Its last handling by book had the outcome undecodable" in shown


def test_why_without_a_ledger_explains_the_ledger(run: Run, queues: None) -> None:
    result = run("why", "41")

    assert 1 == result.exit_code
    assert "There is no decision ledger at data/decisions.db" in result.stderr


def test_why_for_a_remote_queue_manager_names_the_setting(run: Run) -> None:
    result = run("why", "41", "--url", "embedded+tls://mq.example:1414/QM1")

    assert 2 == result.exit_code
    assert "MQFLOW_LEDGER_FILE" in result.stderr


def test_explain_shows_schedules_groups_rate_limits_and_circuit_breakers(run: Run, orders: None, tmp_path: Path) -> None:
    (tmp_path / "paced_app.py").write_text(
        "from mqflow import App, CircuitBreaker, RateLimit\napp = App()\n"
        "app.schedule(60, 'ORDERS.IN', name='minute')\n"
        "@app.listener('ORDERS.IN', groups=True, rate_limit=RateLimit(10, burst=5), "
        "breaker=CircuitBreaker(failures=3, open_s=20))\n"
        "async def book(bodies: list[bytes]) -> None:\n    pass\n"
    )

    shown = run("explain", "paced_app:app")

    assert re.search(r"schedule minute +every 60 s, on ORDERS.IN +source", shown.stdout), shown.output
    assert re.search(r"groups +a message group is a unit of work, of at most 1000 messages +source", shown.stdout)
    assert re.search(r"rate limit +10 messages in 1 s, at most 5 at once +source", shown.stdout)
    assert re.search(r"circuit breaker +opens after 3 failures, for 20 s +source", shown.stdout)


def test_explain_of_a_listener_on_a_topic_names_the_model_that_decides(run: Run, orders: None, tmp_path: Path) -> None:
    (tmp_path / "desk_app.py").write_text(
        "from mqflow import App\napp = App()\n"
        "@app.listener(topic='Prices/#', durable='desk-1', selector='cents > 0')\n"
        "async def book(body: bytes) -> None:\n    pass\n"
    )
    model = "DEFINE QMODEL(DESK.MODEL) DEFTYPE(PERMDYN) BOTHRESH(4)"
    run("mqsc", stdin=f"{model}\nDEFINE TOPIC(PRICES) TOPICSTR('Prices') MDURMDL(DESK.MODEL)")

    shown = run("explain", "desk_app:app")

    assert re.search(r"Prices/# +value", shown.stdout), shown.output
    assert re.search(r"subscription +durable, desk-1 +source", shown.stdout)
    assert re.search(r"selector +cents > 0 +source", shown.stdout)
    assert re.search(r"backout threshold +4 +BOTHRESH of DESK.MODEL", shown.stdout)


PUBLISHING = """
from mqflow import App
app = App()

@app.listener("ORDERS.IN")
@app.publisher("DEFAULT")
@app.publisher("SAID", persistent=False)
@app.publisher("PLAIN", persistent=None)
@app.publisher("SAFE", persistent=None)
@app.publisher("NOWHERE", persistent=None)
async def book(order: str) -> str:
    return order

@app.listener(topic="Prices")
@app.publisher("SAID", persistent=False)
async def price(body: bytes) -> bytes:
    return body

@app.listener(topic="Trades", durable="desk-1")
@app.publisher("SAID", persistent=False)
async def trade(body: bytes) -> bytes:
    return body
"""


@pytest.fixture
def publishing(run: Run, orders: None, tmp_path: Path) -> list[str]:
    """Write an application with several publishers, and return the warnings that it deserves."""
    (tmp_path / "publishing_app.py").write_text(PUBLISHING)
    run("mqsc", stdin="DEFINE QLOCAL(SAID) DEFPSIST(YES)\nDEFINE QLOCAL(SAFE) DEFPSIST(YES)\nDEFINE QLOCAL(BASE) DEFPSIST(YES)")
    run("mqsc", stdin="DEFINE QALIAS(PLAIN) TARGET(BASE) DEFPSIST(NO)")
    lost = "they are lost when the queue manager ends, also the results of persistent messages of"
    return [
        f"publishing_app.book puts non-persistent results on PLAIN (DEFPSIST(NO) of PLAIN): {lost} ORDERS.IN.",
        f"publishing_app.book puts non-persistent results on SAID (persistent=False): {lost} ORDERS.IN.",
        f"publishing_app.trade puts non-persistent results on SAID (persistent=False): {lost} Trades.",
    ]


def test_explain_shows_and_names_the_outputs_that_are_not_persistent(run: Run, publishing: list[str]) -> None:
    shown = run("explain", "publishing_app:app")

    for row in (
        r"results on DEFAULT +persistent +source",
        r"results on SAID +not persistent +source",
        r"results on PLAIN +not persistent +DEFPSIST of PLAIN",
        r"results on SAFE +persistent +DEFPSIST of SAFE",
        r"results on NOWHERE +unknown +DEFPSIST of NOWHERE",
    ):
        assert re.search(row, shown.stdout), shown.output
    assert publishing == sorted(
        line.removeprefix("warning: ") for line in shown.stderr.splitlines() if "non-persistent" in line
    )
    assert "publishing_app.book leaves the persistence of its results to NOWHERE: MQOPEN on NOWHERE" in shown.stderr
    assert "backout threshold" in shown.stdout


def test_doctor_names_the_outputs_of_an_application_that_are_not_persistent(run: Run, publishing: list[str]) -> None:
    found = run("doctor", "publishing_app:app")

    assert 0 == found.exit_code, found.output
    assert publishing == sorted(
        line.removeprefix("warning").strip() for line in found.stdout.splitlines() if "non-persistent" in line
    )
    assert "non-persistent" not in run("doctor").stdout


def test_explain_shows_the_handled_dead_letter_queues(run: Run, orders: None, tmp_path: Path) -> None:
    (tmp_path / "dead_app.py").write_text(
        "from mqflow import App\nfrom mqflow.policy.dead_letters.rules import Action\n\napp = App()\n"
        "dead = app.dead_letter_handler('rules.tbl', queue='DEAD')\n"
        "app.dead_letter_handler('ends.tbl')\n"
        "@dead.rule(Action.DISCARD)\ndef is_old(letter): return True\n"
    )
    (tmp_path / "rules.tbl").write_text("RETRYINT(30)\nACTION(RETRY)")
    (tmp_path / "ends.tbl").write_text("WAIT(NO)\nACTION(RETRY)")

    shown = run("explain", "dead_app:app")

    assert re.search(r"dead letters on DEAD +2 rules, every 30 s, for ever +source", shown.stdout), shown.output
    assert re.search(r"dead letters on DEADQ +1 rule, every 60 s, until the queue has no work left +source", shown.stdout)


def test_unsubscribe_ends_a_durable_subscription(run: Run, orders: None) -> None:
    run("mqsc", stdin="DEFINE SUB('desk-1') TOPICSTR('Prices') DESTCLAS(MANAGED)")

    ended = run("unsubscribe", "desk-1")
    again = run("unsubscribe", "desk-1")

    assert (0, "The subscription desk-1 has ended.") == (ended.exit_code, ended.stdout.strip()), ended.output
    assert "MQRC_NO_SUBSCRIPTION" in again.stderr


def test_settings_of_a_listener_are_shown_and_a_mistyped_listener_is_a_warning(run: Run, orders: None, tmp_path: Path) -> None:
    (tmp_path / "mqflow.toml").write_text('[listeners."ODERS.IN"]\nconcurrency = 8\n')
    (tmp_path / "mistyped_app.py").write_text(APP)  # a module that no other test has imported

    configuration = run("explain", "mistyped_app:app", "--config").stdout
    explained = run("explain", "mistyped_app:app").stderr
    output, code = run_until("Listening", 1)

    assert re.search(r'listeners."ODERS.IN".concurrency +8 ', configuration)
    assert 'listeners."ODERS.IN".concurrency by' in run("doctor").stdout
    warning = "There are settings for a listener 'ODERS.IN', but no such listener. Did you mean 'ORDERS.IN'?"
    assert f"warning: {warning}" in explained
    assert (0, 1) == (code, output.count(warning))


@pytest.mark.parametrize(
    ("source", "code", "expected"),
    [
        ("import os\nraise RuntimeError('boom')", 1, "{name}.py, line 2: RuntimeError: boom."),
        ("import {name}x", 1, "{name}.py, line 1: ModuleNotFoundError: No module named '{name}x'."),
        ("import a_tool_that_is_not_there", 1, "{name}.py, line 1: ModuleNotFoundError: No module named 'a_tool_that"),
        ("import json\njson.loads('')", 1, "{name}.py, line 2: JSONDecodeError: Expecting value"),
        ("app = (", 1, "SyntaxError: '(' was never closed ({name}.py, line 1)."),
        ("from mqflow import App\nApp().listener('')", 2, "has neither a queue nor a topic"),
    ],
)
def test_an_error_at_the_import_has_its_line(run: Run, tmp_path: Path, source: str, code: int, expected: str) -> None:
    name = f"broken_{abs(hash(source))}"  # a module that no other test has imported
    (tmp_path / f"{name}.py").write_text(source.replace("{name}", name))

    result = run("run", f"{name}:app")

    assert code == result.exit_code, result.output
    assert expected.replace("{name}", name) in result.stderr
    assert 1 == len(result.stderr.splitlines())


def test_a_mistyped_queue_is_reported_once(run: Run, orders: None, tmp_path: Path) -> None:
    (tmp_path / "misspelt_app.py").write_text(APP.replace("ORDERS.IN", "ODERS.IN"))

    result = run("run", "misspelt_app:app")

    assert 1 == result.exit_code
    assert 1 == result.stderr.count("MQRC_UNKNOWN_OBJECT_NAME")


def test_explain_warns_about_a_variable_that_is_not_a_setting(run: Run, orders: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQFLOW_DRIAN_S", "3")

    assert (
        "warning: MQFLOW_DRIAN_S is not a setting, so it is ignored. Did you mean MQFLOW_DRAIN_S?"
        in run("explain", "orders_app:app").stderr
    )


def test_init_makes_an_application_whose_test_passes(run: Run, tmp_path: Path) -> None:
    made = run("init", "greeter")

    assert 0 == made.exit_code
    pytest_of_its_own = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "greeter", "greeter"]
    tested = subprocess.run(pytest_of_its_own, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 passed" in tested.stdout, tested.stdout + tested.stderr


def test_init_makes_a_plugin_whose_test_passes_and_whose_entry_point_leads_to_it(run: Run, tmp_path: Path) -> None:
    made = run("init", "--plugin", "acme-audit")

    assert 0 == made.exit_code, made.output
    pytest_of_its_own = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "acme-audit", "acme-audit",
    ]  # fmt: skip
    tested = subprocess.run(pytest_of_its_own, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in tested.stdout, tested.stdout + tested.stderr
    project = tomllib.loads((tmp_path / "acme-audit" / "pyproject.toml").read_text())["project"]
    assert {"mqflow.middleware": {"acme-audit": "acme_audit:Plugin"}} == project["entry-points"]
    assert "class Plugin" in (tmp_path / "acme-audit" / "acme_audit.py").read_text()


@pytest.mark.parametrize("name", ["2 plugins", "prüfer"])
def test_init_refuses_the_name_of_a_plugin_that_no_module_can_have(run: Run, tmp_path: Path, name: str) -> None:
    result = run("init", "--plugin", name)

    assert f"{name} cannot be the name of a plugin" in result.stderr
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("folder", "name"), [("My Shop_2", "my-shop-2"), ("mqflow", "application"), ("«»", "application"), ('a"b', "a-b")]
)
def test_init_gives_the_project_a_name_that_pip_accepts(run: Run, tmp_path: Path, folder: str, name: str) -> None:
    run("init", folder)

    assert name == tomllib.loads((tmp_path / folder / "pyproject.toml").read_text())["project"]["name"]


def test_the_containerfile_of_init_installs_the_dependencies(run: Run, tmp_path: Path) -> None:
    run("init", "greeter")
    lines = (tmp_path / "greeter" / "Containerfile").read_text().splitlines()
    [command] = [line.removeprefix("RUN python3 ").removesuffix(" \\") for line in lines if line.startswith("RUN python3 ")]

    printed = subprocess.run(
        ["sh", "-c", f"{sys.executable} {command}"], cwd=tmp_path / "greeter", capture_output=True, text=True, check=True
    ).stdout

    assert "mqflow[cli,http]\n" == printed


def test_the_containerfile_of_init_finds_the_mqflow_that_made_it(run: Run, tmp_path: Path) -> None:
    run("init", "greeter")
    lines = (tmp_path / "greeter" / "Containerfile").read_text()

    assert "COPY pyproject.toml wheel[s] ./\n" in lines
    assert "pip install --no-cache-dir --find-links . -r requirements.txt" in lines


def test_the_wheel_of_init_installs_the_same_mqflow_without_an_index(run: Run, tmp_path: Path) -> None:
    result = run("init", "greeter")

    assert "pip install --find-links wheels -e '.[test]'" in result.stdout
    [wheel] = (tmp_path / "greeter" / "wheels").iterdir()
    offline = ["--no-index", "--no-deps", "--no-compile", "--quiet", "--disable-pip-version-check", "--target", "installed"]
    pip = [sys.executable, "-m", "pip", "install", "--find-links", str(wheel.parent), *offline, "mqflow[cli]"]
    subprocess.run(pip, cwd=tmp_path, check=True)
    installed = tmp_path / "installed"
    packaged = {path.relative_to(installed).as_posix() for path in (installed / "mqflow").rglob("*.*")}
    checkout = Path(__file__).parents[3]
    assert {path.relative_to(checkout).as_posix() for path in (checkout / "mqflow").rglob("*.py")} <= packaged
    assert {"mqflow/py.typed", "mqflow/cli/applications/templates/application/app.py.txt"} <= packaged
    asked = "from importlib.metadata import entry_points as e; print(*(each.value for each in e(name='mqflow')))"
    printed = subprocess.run(
        [sys.executable, "-S", "-c", asked], cwd=installed, capture_output=True, text=True, check=True
    ).stdout
    assert "mqflow.cli.__main__:program mqflow.testing.plugin\n" == printed


def test_the_manifests_of_init_are_valid_and_agree_with_the_application(run: Run, tmp_path: Path) -> None:
    run("init", "My Shop_2")

    made = run("init", "--kubernetes", "My Shop_2")

    assert 0 == made.exit_code, made.output
    folder = tmp_path / "My Shop_2" / "kubernetes"
    found = {path.name: yaml.safe_load(path.read_text()) for path in folder.iterdir()}
    for name in ("deployment.yaml", "service.yaml", "disruption-budget.yaml"):
        for version in ("1.29", "1.36"):
            kubernetes_validate.validate(found[name], version, strict=True)
    deployment, scaled = found["deployment.yaml"], found["scaled-object.yaml"]
    assert {"my-shop-2"} == {each["metadata"]["name"] for name, each in found.items() if name != "kustomization.yaml"}
    pod = deployment["spec"]["template"]["spec"]
    drain_s = tomllib.loads((tmp_path / "My Shop_2" / "mqflow.toml").read_text())["drain_s"]
    assert pod["terminationGracePeriodSeconds"] >= drain_s + 10
    [container] = pod["containers"]
    assert ("/readyz", "/livez") == tuple(container[probe]["httpGet"]["path"] for probe in ("readinessProbe", "livenessProbe"))
    # A page about a process whose event loop is blocked takes longer than the default timeout of a probe, which is a second.
    probes = ("startupProbe", "readinessProbe", "livenessProbe")
    assert all(container[probe].get("timeoutSeconds", 1) > 2 * _LOOP_ANSWER_S for probe in probes)
    assert container["securityContext"]["readOnlyRootFilesystem"]
    listed = {*found["kustomization.yaml"]["resources"], "scaled-object.yaml", "kustomization.yaml"}
    assert set(found) == listed
    # The fields of https://keda.sh/docs/latest/scalers/metrics-api/, and the answer of the page /scale.
    [trigger] = scaled["spec"]["triggers"]
    assert ("metrics-api", {"url", "valueLocation", "targetValue"}) == (trigger["type"], set(trigger["metadata"]))
    assert "messages_waiting" == trigger["metadata"]["valueLocation"]
    assert 2 == run("init", "--kubernetes", "My Shop_2").exit_code


def test_the_compose_file_of_init_agrees_with_the_application(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("init", "greeter")

    made = run("init", "--compose", "greeter")

    assert 0 == made.exit_code, made.output
    folder = tmp_path / "greeter" / "compose"
    composed = yaml.safe_load((folder / "compose.yaml").read_text())
    services, secret = composed["services"], composed["secrets"]["password"]["file"]
    assert f"compose/{secret.removeprefix('./')}" in (tmp_path / "greeter" / ".gitignore").read_text().splitlines()
    application, queue_manager = services["application"], services["queue-manager"]
    settings = load({}, environment={key: value for key, value in application["environment"].items() if "FILE" not in key})
    assert ("client", "QM1") == (locate(settings.url).kind, queue_manager["environment"]["MQ_QMGR_NAME"])
    assert {"read_only": True, "secrets": ["password"], "build": ".."}.items() <= application.items()
    drain_s = tomllib.loads((tmp_path / "greeter" / "mqflow.toml").read_text())["drain_s"]
    assert int(application["stop_grace_period"].removesuffix("s")) >= drain_s + 10
    files = [volume.split(":")[0] for volume in queue_manager["volumes"] if volume.startswith(".")]
    assert [True, True] == [(folder / file).is_file() for file in files]
    monkeypatch.chdir(tmp_path / "greeter")
    run("mqsc", "queues.mqsc")
    options = ("--user", "app", "--put", "GREETINGS.OUT", "--dead-letter-queue", "DEV.DEAD.LETTER.QUEUE")
    printed = run("mqsc", "app:app", *options, "--url", "embedded:./data?qmgr=QM1").stdout
    granted = (folder / "authorities.mqsc").read_text()
    assert [line for line in printed.splitlines() if line[0] != "*"] == [
        line for line in granted.splitlines() if line[0] != "*"
    ]


def test_init_creates_one_kind_of_files_in_each_command(run: Run, tmp_path: Path) -> None:
    refused = run("init", "--kubernetes", "--compose", "greeter")

    assert (2, []) == (refused.exit_code, list(tmp_path.glob("greeter")))
    assert "--kubernetes and --compose exclude each other: give one in each command." in refused.stderr


def test_a_reader_that_closes_the_pipe_is_not_an_error(run: Run, queues: None, tmp_path: Path) -> None:
    script = tmp_path / "long.mqsc"
    script.write_text("DISPLAY QUEUE(*) ALL\n" * 200)
    command = [sys.executable, "-m", "mqflow.cli", "mqsc", str(script)]

    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        printed = process.stderr.read()

    assert b"" == printed
