"""A Quarkus application uses the queue manager with IBM's connection factory, behind a pool of connections.

Quarkus's extension for this pool (`quarkus-pooled-jms`) could not be built: the registry has no `quarkus-jms-spi-deployment`
3.33.2. So the application makes the pool of the extension (`pooled-jms`) itself.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from tests.foreign.jms.conftest import Serve
from tests.foreign.jms.program import CACHE, changed, class_paths, note
from tests.foreign.jms.test_frameworks import bodies
from tests.long import LONG

pytestmark = [pytest.mark.xdist_group("jms"), LONG]  # Maven builds the application in half a minute

HERE = Path(__file__).parent / "quarkus"


@pytest.fixture(scope="module")
def application() -> Path:
    """Return the built application. Skips if Maven cannot build it."""
    class_paths()  # skips without a JDK or Maven
    built = CACHE / "quarkus"
    cause = "".join(path.read_text("utf-8") for path in sorted(HERE.rglob("*")) if path.is_file())
    if changed(built, cause):
        shutil.copytree(HERE, built, dirs_exist_ok=True)
        try:
            subprocess.run(["mvn", "-q", "-B", "package"], cwd=built, capture_output=True, check=True, timeout=240)
        except subprocess.SubprocessError as error:
            pytest.skip(f"Maven cannot build a Quarkus application: {error}")
        note(built, cause)
    return built / "target" / "quarkus-app" / "quarkus-run.jar"


def test_a_quarkus_application_consumes_in_transactions_and_its_poison_message_is_moved(
    application: Path, queue_manager: EmbeddedQueueManager, serve: Serve
) -> None:
    port, _ = serve(queue_manager)
    options = ["-XX:TieredStopAtLevel=1", "-Dquarkus.banner.enabled=false", "-Dquarkus.log.level=OFF"]
    command = ["java", *options, "-jar", str(application), str(port)]

    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)

    assert ["one 1", "bad 1", "bad 2", "two 1"] == done.stdout.splitlines()
    assert {"POISON": [], "BOQ": ["bad"], "OUT": ["one", "two"]} == {
        queue: bodies(queue_manager, queue) for queue in ("POISON", "BOQ", "OUT")
    }
