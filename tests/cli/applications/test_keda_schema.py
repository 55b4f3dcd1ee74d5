"""The schema of KEDA's resource definition accepts the ScaledObject of `mqflow init --kubernetes`."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.cli.conftest import Run
from tests.foreign.npm import node_programs, unpacked

PACKAGE = "@kubernetes-models/keda@0.4.2"
SHA512 = (
    "3fd311cbbe4c2be004b223f1fac135e5eb4318704d80a9aab36949e1ce464b79"
    "b3bacf3ac0e219f544a41ee01e7e701daa9d518ae5f21927b4c2818ec236b792"
)
CHECK = Path(__file__).with_name("keda_check.js")


def problems(document: Any, package: Path) -> list[str]:
    """Return the problems of the document by the schema."""
    command = [str(node_programs() / "node"), str(CHECK), str(package)]
    done = subprocess.run(command, input=json.dumps(document), capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]


def test_keda_accepts_the_scaled_object_of_init_and_refuses_one_without_its_target(run: Run, tmp_path: Path) -> None:
    package = unpacked(PACKAGE, SHA512, tmp_path / "npm")
    run("init", "shop")
    run("init", "--kubernetes", "shop")
    scaled = yaml.safe_load((tmp_path / "shop" / "kubernetes" / "scaled-object.yaml").read_text())

    assert [""] == problems(scaled, package)
    del scaled["spec"]["scaleTargetRef"]
    scaled["spec"]["triggers"][0]["metadata"]["targetValue"] = 10
    assert {"/spec required", "/spec/triggers/0/metadata/targetValue type"} == set(problems(scaled, package))
