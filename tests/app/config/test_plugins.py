"""Plugins: mqflow finds them through entry points, lists them without an import, and loads or refuses them by name."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from mqflow.app.application import App
from mqflow.app.config.plugins import Group, Plugin, PluginError, find, installed, load, named
from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers.message import Message
from mqflow.app.handlers.outgoing_message import outgoing
from mqflow.cli.main import main
from mqflow.mqi.descriptor import MessageDescriptor

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install distributions with entry points, as a package manager does: a dist-info folder on the path."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(distribution: str, entry_points: str, **modules: str) -> None:
        folder = tmp_path / f"{distribution.replace('-', '_')}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(entry_points)
        for name, source in modules.items():
            monkeypatch.delitem(sys.modules, name, raising=False)
            (tmp_path / f"{name}.py").write_text(source)

    return install


def test_plugins_are_listed_with_their_distribution_and_none_is_imported(install: Install) -> None:
    install("acme-audit", "[mqflow.hooks]\naudit = acme_audit:Audit\n", acme_audit="raise SystemExit('imported')")

    listed = [plugin for plugin in installed(Group.HOOKS) if plugin.name == "audit"]

    expected = Plugin(group=Group.HOOKS, name="audit", target="acme_audit:Audit", distribution="acme-audit", version="1.0")
    assert [expected] == listed
    assert expected in installed()


def test_a_class_is_made_and_an_object_is_taken_as_it_is(install: Install) -> None:
    install(
        "acme-hooks",
        "[mqflow.hooks]\nclass = acme_hooks:Audit\nfunction = acme_hooks:note\n",
        acme_hooks="class Audit:\n    def __call__(self, event): ...\n\ndef note(event): ...\n",
    )

    audit, note = load(find(Group.HOOKS, "class")), load(find(Group.HOOKS, "function"))

    assert ("Audit", "note") == (type(audit).__name__, note.__name__)


def test_names_are_replaced_by_plugins_and_objects_stay_in_their_order(install: Install) -> None:
    install(
        "acme-tenant",
        "[mqflow.middleware]\ntenant = acme_tenant:Tenant\n",
        acme_tenant="class Tenant:\n    async def consume(self, delivery, call_next): ...\n",
    )
    own = object()

    chain = named(Group.MIDDLEWARE, [own, "tenant"])

    assert own is chain[0]
    assert "Tenant" == type(chain[1]).__name__


def test_an_application_names_its_plugins(install: Install) -> None:
    source = "class Tenant:\n    async def consume(self, delivery, call_next): ...\n\ndef note(event): ...\n"
    install("acme", "[mqflow.middleware]\ntenant = acme_both:Tenant\n[mqflow.hooks]\nnote = acme_both:note\n", acme_both=source)

    app = App(middleware=["tenant"], hooks=["note"])

    assert ["Tenant"] == [type(each).__name__ for each in app.middleware]
    assert ["note"] == [getattr(each, "__name__", "") for each in app.hooks]


def test_a_codec_is_named_by_the_application_a_listener_or_a_publisher(install: Install) -> None:
    source = """
class Copybook:
    def decode(self, message, payload_type):
        return message.body.decode("cp037")

    def encode(self, payload):
        return payload.encode("cp037"), "MQSTR", 37
"""
    install("acme-codec", "[mqflow.codecs]\ncopybook = acme_codec:Copybook\n", acme_codec=source)
    whole, part = App(codec="copybook"), App()

    @part.listener("IN", codec="copybook")
    async def handle(claim: str) -> None: ...

    decode = part.listeners[0].handlers[0].decode
    assert decode is not None
    assert "Claim" == decode(Message(MessageDescriptor(), "Claim".encode("cp037"), "IN"))
    assert "Copybook" == type(whole.codec).__name__
    for publisher in (whole.publisher("OUT"), part.publisher("OUT", codec="copybook")):
        assert "Claim".encode("cp037") == publisher.outgoing("Claim").body


@pytest.mark.parametrize(
    "declare",
    [lambda: App(codec="xml"), lambda: App().listener("IN", codec="xml"), lambda: App().publisher("OUT", codec="xml")],
    ids=["application", "listener", "publisher"],
)
def test_a_codec_that_is_not_installed_is_refused_when_it_is_declared(install: Install, declare: Callable[[], object]) -> None:
    install("acme-codec", "[mqflow.codecs]\ncopybook = acme:Copybook\n")

    with pytest.raises(PluginError, match=r"offers 'xml' in mqflow\.codecs; installed there: cloudevents, copybook\."):
        declare()


def test_a_put_takes_no_name_of_a_codec() -> None:
    with pytest.raises(ConfigurationError, match=r"codec='utf-8': the codec of a put is an object"):
        outgoing("OUT", "x", codec="utf-8")  # type: ignore[arg-type]  # the tested mistake


def test_the_error_for_an_unknown_plugin_lists_the_installed_names(install: Install) -> None:
    install("acme-codec", "[mqflow.codecs]\ncopybook = acme:Copybook\n")

    with pytest.raises(PluginError, match=r"No installed distribution offers 'copybok' in mqflow\.codecs.*copybook"):
        find(Group.CODECS, "copybok")


def test_a_name_that_two_distributions_offer_is_refused_with_both(install: Install) -> None:
    install("acme-one", "[mqflow.codecs]\ncbor = one:Cbor\n")
    install("acme-two", "[mqflow.codecs]\ncbor = two:Cbor\n")

    with pytest.raises(PluginError, match=r"offered twice: .*acme-one 1\.0.* and .*acme-two 1\.0"):
        find(Group.CODECS, "cbor")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import acme_absent", "ModuleNotFoundError: No module named 'acme_absent'"),
        ("", "AttributeError"),
        ("class Hook:\n    def __init__(self, url): ...\n    def __call__(self, event): ...\n", "TypeError"),
        ("class Hook:\n    pass\n", "Hook has no __call__"),
    ],
    ids=["its import fails", "no such object", "it wants arguments", "it is no hook"],
)
def test_a_plugin_that_cannot_be_used_is_refused_by_name_with_the_cause(install: Install, source: str, said: str) -> None:
    install("acme-broken", "[mqflow.hooks]\nbroken = acme_broken:Hook\n", acme_broken=source)

    with pytest.raises(PluginError) as refused:
        load(find(Group.HOOKS, "broken"))

    assert said in str(refused.value)
    assert "broken (acme_broken:Hook, from acme-broken 1.0)" in str(refused.value)


def test_a_codec_that_cannot_encode_is_no_codec(install: Install) -> None:
    install("acme-half", "[mqflow.codecs]\nhalf = acme_half:Half\n", acme_half="class Half:\n    def decode(self, *_): ...\n")

    with pytest.raises(PluginError, match="Half has no encode"):
        load(find(Group.CODECS, "half"))


def test_a_broken_plugin_does_not_keep_others_from_loading(install: Install) -> None:
    install(
        "acme-commands",
        "[mqflow.commands]\nacme = acme_good:command\nbad = acme_bad:command\n",
        acme_good="class _Command:\n    def invoke(self, context): ...\n\ncommand = _Command()\n",
        acme_bad="raise RuntimeError('no licence')",
    )

    with pytest.raises(PluginError, match="RuntimeError: no licence"):
        load(find(Group.COMMANDS, "bad"))

    assert "_Command" == type(load(find(Group.COMMANDS, "acme"))).__name__


def test_an_application_without_plugins_reads_no_metadata() -> None:
    check = "import sys, mqflow; mqflow.App(); sys.exit('importlib.metadata' in sys.modules)"

    assert 0 == subprocess.run([sys.executable, "-c", check], check=False).returncode


def test_the_command_names_a_plugin_that_fails_and_goes_on_with_the_others(install: Install) -> None:
    install(
        "acme-hooks",
        "[mqflow.hooks]\naudit = acme_hooks:note\nbroken = acme_broken:note\nending = acme_ending:note\n",
        acme_hooks="def note(event): ...\n",
        acme_broken="import nothing_of_this_name\n",
        acme_ending="raise SystemExit(3)\n",
    )

    done = CliRunner().invoke(main, ["plugins"])

    states = {line.split()[1]: line.split()[-1] for line in done.stdout.splitlines() if "acme-hooks" in line}
    assert (1, {"audit": "ok", "broken": "failed", "ending": "failed"}) == (done.exit_code, states)
    assert "No module named 'nothing_of_this_name'. Repair or uninstall acme-hooks" in done.stderr
    assert "Plugin ending (acme_ending:note, from acme-hooks 1.0) cannot be loaded: SystemExit: 3" in done.stderr


def test_the_command_ends_well_if_all_plugins_can_be_used(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("acme-hooks", "[mqflow.hooks]\naudit = acme_hooks:note\n", acme_hooks="def note(event): ...\n")
    # A plugin of this environment can refuse to be loaded twice in one process.
    monkeypatch.setattr("mqflow.cli.applications.plugins.installed", lambda: [find(Group.HOOKS, "audit")])

    done = CliRunner().invoke(main, ["plugins", "--json"])

    [audit] = map(json.loads, done.stdout.splitlines())
    assert 0 == done.exit_code
    assert ("hooks", "audit", "1.0", "") == (audit["kind"], audit["name"], audit["version"], audit["problem"])


def test_each_entry_point_of_our_plugins_names_its_object() -> None:
    found = [
        EntryPoint(name, target, group)
        for file in Path(__file__).parents[3].glob("plugins/*/pyproject.toml")
        for group, targets in tomllib.loads(file.read_text())["project"].get("entry-points", {}).items()
        for name, target in targets.items()
    ]

    assert {
        ("mqflow.codecs", "mqflow_cloudevents:CloudEventsCodec"),
        ("mqflow.commands", "mqflow_copybook.command:command"),
        ("mqflow.hooks", "mqflow_prometheus:PrometheusMetrics"),
    } == {(each.group, each.value) for each in found if each.load()}
