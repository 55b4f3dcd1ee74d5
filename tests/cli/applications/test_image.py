"""The image that `mqflow init` describes is built, becomes ready, handles a message, and drains at SIGTERM with exit code 0.

Buildah builds it without a daemon, on a base that debootstrap makes, because no registry of images is needed then.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from mqflow.cli.main import main
from tests.cli.conftest import free_port

CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
PACKAGES = "python3,python3-venv,ca-certificates"
TOO_LONG_S = 120

pytestmark = [
    pytest.mark.skipif(os.environ.get("MQFLOW_FOREIGN") != "1", reason="it installs and clones: MQFLOW_FOREIGN=1 asks for it"),
    pytest.mark.skipif(
        shutil.which("buildah") is None or shutil.which("debootstrap") is None or os.geteuid() != 0,
        reason="it needs buildah, debootstrap and root",
    ),
    pytest.mark.timeout(3_600),
]


class Buildah:
    """Runs buildah with a storage of its own."""

    def __init__(self, folder: Path) -> None:
        self._command = ["buildah", "--root", f"{folder}/root", "--runroot", f"{folder}/run", "--storage-driver", "vfs"]

    def __call__(self, *arguments: str, **options: str | Path) -> str:
        done = subprocess.run([*self._command, *arguments], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]  # cwd
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return str(done.stdout).strip()

    def start(self, container: str, *arguments: str) -> "subprocess.Popen[str]":
        command = [*self._command, "run", "--isolation=chroot", container, "--", *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[Buildah, str]:
    folder = tmp_path_factory.mktemp("image")
    base = folder / "base"
    subprocess.run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", base], check=True)
    shutil.copy(CERTIFICATES, base / CERTIFICATES.relative_to("/"))
    buildah = Buildah(folder)
    container = buildah("from", "scratch")
    buildah("copy", "-q", container, str(base), "/")
    buildah("commit", "-q", container, "localhost/base")
    assert 0 == CliRunner().invoke(main, ["init", str(folder / "greeter")]).exit_code
    arguments = ("--build-arg", "BUILD=localhost/base", "--build-arg", "BASE=localhost/base", "--format", "docker")
    buildah("build", "-q", "--isolation=chroot", *arguments, "-t", "greeter", str(folder / "greeter"))
    return buildah, buildah("from", "--pull=never", "localhost/greeter")


def answers(address: str) -> bool:
    try:
        return bool(urlopen(address, timeout=5).status == 200)  # noqa: S310 - of this machine
    except (URLError, OSError):
        return False


def test_the_image_becomes_ready_handles_a_message_and_drains_at_sigterm(image: tuple[Buildah, str]) -> None:
    buildah, container = image
    port = free_port()
    command = buildah("inspect", "--type", "image", "--format", "{{index .OCIv1.Config.Cmd 2}}", "localhost/greeter")
    assert command.endswith("exec mqflow run app:app --http 0.0.0.0:8080")
    running = buildah.start(container, "sh", "-c", command.replace("0.0.0.0:8080", f"127.0.0.1:{port}"))
    try:
        limit = time.monotonic() + TOO_LONG_S
        while not answers(f"http://127.0.0.1:{port}/readyz"):
            assert running.poll() is None, running.communicate()[0]
            assert time.monotonic() < limit
        inside = ("run", "--isolation=chroot", container, "--")
        buildah(*inside, "mqflow", "put", "NAMES.IN", '{"name": "Ada"}')
        got = buildah(*inside, "mqflow", "get", "GREETINGS.OUT", "--wait", str(TOO_LONG_S))
        user = buildah(*inside, "id", "-u")
    finally:
        subprocess.run(["pkill", "-TERM", "-f", f"venv/bin/mqflow run app:app --http 127.0.0.1:{port}"], check=False)
        printed, _ = running.communicate(timeout=TOO_LONG_S)

    assert ("Hello, Ada!", "10001", 0) == (got, user, running.returncode), printed


def test_the_image_has_no_compiler_and_asks_for_its_own_health(image: tuple[Buildah, str]) -> None:
    buildah, container = image

    found = buildah("run", "--isolation=chroot", container, "--", "sh", "-c", "command -v cc gcc c++ || echo no compiler")
    health = buildah("inspect", "--type", "image", "--format", "{{.Docker.Config.Healthcheck}}", "localhost/greeter")

    assert "no compiler" == found
    assert "/livez" in health
