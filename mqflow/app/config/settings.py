"""What an application is set to: one frozen record from arguments, the environment and a file, the strongest first.

Reads `mqflow.toml`, `[tool.mqflow]` of a pyproject.toml and the environment; refuses what it does not understand by key, source
and accepted values; remembers where every value came from. Knows no queue manager and no command line.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct, field, inspect

from mqflow.policy.did_you_mean import closest
from mqflow.policy.reconnect.delays import LADDER, DelaysError, Ladder, parse_delays

__all__ = (
    "LedgerSettings",
    "ListenerSettings",
    "ReconnectSettings",
    "Secret",
    "Settings",
    "SettingsError",
    "TLSSettings",
    "load",
    "mistyped_listeners",
    "shown_key",
)

_Seconds = Annotated[float, Meta(ge=0)]
_Count = Annotated[int, Meta(ge=1)]


class Secret:
    """A value that is never shown: not in a repr, a log, an error or `mqflow explain`. `reveal()` is the only way to it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return what is kept secret."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))


class LedgerSettings(Struct, frozen=True, kw_only=True):
    """The decision ledger."""

    #: "troubled": messages that failed or were decided about; "all": every delivery; "nothing": no ledger.
    record: Literal["troubled", "all", "nothing"] = "troubled"
    #: The file; empty for `decisions.db` beside the data.
    file: str = ""
    #: How many entries are kept; the oldest go.
    entries_max: _Count = 200_000


class TLSSettings(Struct, frozen=True, kw_only=True):
    """How the channel to IBM MQ is protected. The names are MQ's."""

    #: SSLCIPH: the cipher spec of the channel, ANY_TLS12_OR_HIGHER say; empty for a channel without TLS.
    cipher_spec: str = ""
    #: SSLKEYR: the key repository, a file of certificates and keys.
    key_repository: str = ""
    #: A file whose content, without the line end, opens the key repository; empty where a stash file does.
    key_repository_password_file: str = ""
    #: CERTLABL: which certificate of the key repository to show.
    certificate_label: str = ""
    #: SSLPEER: what the name in the queue manager's certificate must match, "CN=mq.example" say.
    peer_name: str = ""


class ReconnectSettings(Struct, frozen=True, kw_only=True):
    """How a lost connection is got back."""

    #: To which queue manager, as CLIENTRECONNECTOPTIONS: QMGR the same, ANY any of a group, ASDEF what DefRecon, or else the
    #: channel, says.
    mode: Literal["ANY", "ASDEF", "DISABLED", "QMGR"] = "QMGR"
    #: Before each attempt, in milliseconds, as ReconDelay of mqclient.ini: "(1000,250)(2000,500)"; empty for JMS's ladder.
    delays: str = ""
    #: Give up after this many seconds; None never does.
    limit_s: _Seconds | None = None

    @property
    def ladder(self) -> Ladder:
        """The delays in seconds. Raises `DelaysError`; `load` has asked already."""
        return parse_delays(self.delays) if self.delays else LADDER


class ListenerSettings(Struct, frozen=True, kw_only=True):
    """What one listener is told from outside; None leaves what its decorator says."""

    concurrency: _Count | None = None
    #: Deliveries of one unit of work.
    unit_of_work: _Count | None = None
    #: "queue" for BOTHRESH, or a number; 0 disables poison handling.
    backout_threshold: Annotated[int, Meta(ge=0)] | Literal["queue"] | None = None
    #: The backout requeue queue, instead of BOQNAME.
    backout_requeue_queue: str | None = None
    time_limit_s: Annotated[float, Meta(gt=0)] | None = None


class Settings(Struct, frozen=True, kw_only=True):
    """What everything is set to. Make it with `load`; the fields' names are the keys of `mqflow.toml`."""

    #: Which queue manager, and how to reach it.
    url: str = "embedded:./data?qmgr=QM1"
    user: str = ""
    #: From MQFLOW_PASSWORD or `password_file`, never from a settings file.
    password: Secret | None = None
    #: A file whose content, without the line end, is the password.
    password_file: str = ""
    #: A file with a JSON web token, instead of user and password (IBM MQ through ibmmq); read again for each connection.
    token_file: str = ""
    tls: TLSSettings = TLSSettings()
    #: Whether a channel table (CCDT) may be fetched over http, where whoever is on the way can change it; https always may.
    ccdt_over_http: bool = False
    #: What the queue manager is told this application is called (PutApplName); empty for the application's own name.
    application_name: str = ""
    #: After SIGTERM handlers have this many seconds to finish; keep it below the orchestrator's grace period.
    drain_s: _Seconds = 25.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    #: The staging queue for delayed messages; empty for SYSTEM.DDELAY.LOCAL.QUEUE of an embedded queue manager, and for
    #: MQFLOW.DDELAY.QUEUE, to be defined, on IBM MQ.
    delay_queue: str = ""
    #: A `Retry(after=...)` of more seconds waits on the staging queue, where delayed messages are delivered at all.
    retry_in_worker_s: _Seconds = 5.0
    #: The queue that a record of each decision goes on, MQFLOW.DISPOSITION say; empty for none.
    disposition_queue: str = ""
    ledger: LedgerSettings = LedgerSettings()
    reconnect: ReconnectSettings = ReconnectSettings()
    #: Whether `mqflow run` gives OpenTelemetry to the application; its providers and exporters are set as OpenTelemetry does.
    telemetry: bool = False
    #: By queue or listener name, see `listener`.
    listeners: Mapping[str, ListenerSettings] = field(default_factory=dict[str, ListenerSettings])
    #: Where each value that is not a default came from, by key: "environment (MQFLOW_DRAIN_S)".
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    #: What was found but not understood, and ignored, in sentences.
    warnings: tuple[str, ...] = ()

    def url_over(self, declared: str | None) -> str:
        """Return the URL to use: what is set from outside, else what the source declares, else the default.

        Stronger than the source, because one image runs in every stage.
        """
        return declared if declared and "url" not in self.sources else self.url

    def listener(self, name: str, queue: str) -> ListenerSettings:
        """Return what this listener is told: by its name, and where that says nothing, by its queue."""
        merged = ListenerSettings()
        for key in map(_listener_key, (queue, name)):
            found = next((said for known, said in self.listeners.items() if _listener_key(known) == key), merged)
            said = {name: value for name in found.__struct_fields__ if (value := getattr(found, name)) is not None}
            merged = msgspec.structs.replace(merged, **said)
        return merged


def mistyped_listeners(settings: Settings, known: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each listener that is set and not there, where one that is there is called nearly so.

    Others are left alone: one file may be for several applications.
    """
    names = {_listener_key(name): name for name in known}
    for name in settings.listeners:
        key = _listener_key(name)
        if key not in names and (close := closest(key, names)):
            yield f"The settings of the listener {name!r} are for nobody here. Did you mean {names[close]!r}?"


class SettingsError(ValueError):
    """A setting cannot be used: which key, from where, and what is accepted instead."""

    def __init__(self, key: str, source: str, problem: str) -> None:
        super().__init__(f"Setting {key} from {source}: {problem}")
        self.key = key
        self.source = source


class _Given(NamedTuple):
    value: object
    source: str


_Key = tuple[str, ...]
_Layer = dict[_Key, _Given]

_PREFIX: Final = "MQFLOW_"
_CONFIG_VARIABLE: Final = "MQFLOW_CONFIG"
_OF_OTHERS: Final = ("MQFLOW_STANDIN_", "MQFLOW_TEST_")
"""What `mqflow standin run` tells the program it starts, and what says where tests run: no settings of an application."""


def load(
    arguments: Mapping[str, object] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Settings:
    """Return the settings: arguments over `MQFLOW_*` variables over the nearest `mqflow.toml` or `[tool.mqflow]`.

    An argument that is None is not given. The file is looked for in `folder` (the current one) and above, or is the one that
    MQFLOW_CONFIG names. Raises `SettingsError` for a key nobody knows, a value of the wrong kind, a file that cannot be read; a
    variable that nobody knows is a warning only, because orchestrators invent such (MQFLOW_PORT for a service so named).
    """
    environment = os.environ if environment is None else environment
    given: _Layer = {}
    unknown: list[str] = []
    for layer in (
        _from_file(environment, folder or Path.cwd()),
        _from_environment(environment, unknown),
        _from_arguments(arguments or {}),
    ):
        _lay_over(given, layer)
    settings = _password_from_file(_built(given, tuple(unknown)))
    try:
        settings.reconnect.ladder  # noqa: B018 - asked for its error
    except DelaysError as error:
        raise SettingsError("reconnect.delays", settings.sources["reconnect.delays"], str(error)) from error
    return settings


def shown_key(key: tuple[str, ...]) -> str:
    """Return the key as a TOML file would write it: ``listeners."ORDERS.IN".concurrency``."""
    return ".".join(part if part.replace("_", "").isalnum() else f'"{part}"' for part in key)


def _listener_key(name: str) -> str:
    # A variable's name has neither dots nor slashes: ORDERS.IN and MQFLOW_LISTENERS_ORDERS_IN_* mean the same queue.
    return "".join(c if c.isalnum() else "_" for c in name).upper()


def _lay_over(given: _Layer, layer: _Layer) -> None:
    """Lay what is stronger over the rest; a listener keeps the name by which it was said first."""
    names = {_listener_key(key[1]): key[1] for key in given if key[0] == "listeners" and key[1:]}
    for key, said in layer.items():
        match key:
            case ("listeners", name, *rest):
                given["listeners", names.setdefault(_listener_key(name), name), *rest] = said
            case _:
                given[key] = said


def _from_arguments(arguments: Mapping[str, object]) -> _Layer:
    return {key: _Given(value, "an argument") for key, value in _leaves((), arguments) if value is not None}


def _from_environment(environment: Mapping[str, str], unknown: list[str]) -> _Layer:
    layer: _Layer = {}
    for variable, text in environment.items():
        if not variable.startswith(_PREFIX) or variable == _CONFIG_VARIABLE or variable.startswith(_OF_OTHERS):
            continue
        key = _VARIABLES.get(variable) or _listener_variable(variable)
        if key is None:
            close = closest(variable, _VARIABLES)
            unknown.append(f"{variable} is no setting and is ignored." + (f" Did you mean {close}?" if close else ""))
        else:
            layer[key] = _Given(_from_text(key, text), f"environment ({variable})")
    return layer


def _variable(key: _Key) -> str:
    return _PREFIX + "_".join(key).upper()


def _listener_variable(variable: str) -> _Key | None:
    rest = variable.removeprefix(f"{_PREFIX}LISTENERS_")
    for name in _LISTENER_TYPES:
        listener = rest.removesuffix(f"_{name.upper()}")
        if rest not in {variable, listener} and listener:
            return ("listeners", listener, name)
    return None


def _from_text(key: _Key, text: str) -> object:
    """Return the number or the truth value a variable's text says, where the key takes such; else the text."""
    wanted = _type_at(key)
    for kind in (int, float, bool):
        try:
            return msgspec.convert(msgspec.convert(text, kind, strict=False), wanted)
        except msgspec.ValidationError:
            continue
    return text


def _from_file(environment: Mapping[str, str], folder: Path) -> _Layer:
    named = environment.get(_CONFIG_VARIABLE)
    if named:
        if not Path(named).is_file():
            raise SettingsError("(all)", _CONFIG_VARIABLE, f"there is no file {named}.")
        table = _toml(Path(named))
        return _table_layer(Path(named), table.get("tool", {}).get("mqflow", {}) if named.endswith("pyproject.toml") else table)
    for place in (folder.absolute(), *folder.absolute().parents):
        own, shared = place / "mqflow.toml", place / "pyproject.toml"
        if own.is_file():
            return _table_layer(own, _toml(own))
        if shared.is_file() and (table := _toml(shared).get("tool", {}).get("mqflow")):
            return _table_layer(shared, table)
    return {}


def _toml(path: Path) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - only who has such a file pays

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError("(all)", str(path), f"the file cannot be read as TOML: {error}.") from error


def _table_layer(path: Path, table: Mapping[str, object]) -> _Layer:
    layer = {key: _Given(value, str(path)) for key, value in _leaves((), table)}
    if ("password",) in layer:
        problem = "a password does not stand in a file that may be checked in; use password_file, or MQFLOW_PASSWORD."
        raise SettingsError("password", str(path), problem)
    return layer


def _leaves(above: _Key, table: Mapping[str, object]) -> Iterator[tuple[_Key, object]]:
    for name, value in table.items():
        key = (*above, name)
        if isinstance(value, Mapping):
            yield from _leaves(key, value)
        else:
            yield key, value


def _keys(record: type[Struct], above: _Key = ()) -> Iterator[tuple[_Key, Any]]:
    for info in msgspec.structs.fields(record):
        if isinstance(info.type, type) and issubclass(info.type, Struct):
            yield from _keys(info.type, (*above, info.name))
        else:
            yield (*above, info.name), info.type


_LISTENER_TYPES: Final = {key[0]: kind for key, kind in _keys(ListenerSettings)}
#: Every key that can be named beforehand, with what it takes: all but those below `listeners`.
_TYPES: Final = {key: kind for key, kind in _keys(Settings) if key[0] not in {"listeners", "sources", "warnings"}}
_VARIABLES: Final = {_variable(key): key for key in _TYPES}


def _type_at(key: _Key) -> Any:
    """Return what the key takes, or None where there is no such key."""
    match key:
        case ("listeners", _, name):
            return _LISTENER_TYPES.get(name)
        case _:
            return _TYPES.get(key)


def _built(given: _Layer, warnings: tuple[str, ...]) -> Settings:
    table: dict[str, Any] = {}
    for key, (value, source) in given.items():
        kind = _type_at(key)
        if kind is None:
            raise SettingsError(shown_key(key), source, f"there is no such setting. {_instead(key)}")
        try:
            converted = msgspec.convert(value, kind, dec_hook=_secret)
        except msgspec.ValidationError as error:
            shown = "the value given" if kind == Secret | None else repr(value)
            raise SettingsError(shown_key(key), source, f"{shown} is not accepted; it takes {_accepted(kind)}.") from error
        below = table
        for part in key[:-1]:
            below = below.setdefault(part, {})
        below[key[-1]] = converted
    sources = {shown_key(key): source for key, (_, source) in given.items()}
    return msgspec.convert(table | {"sources": sources, "warnings": warnings}, Settings, dec_hook=_secret)


def _secret(kind: type, value: object) -> Any:
    if kind is Secret and isinstance(value, Secret):
        return value
    if kind is Secret and isinstance(value, str):
        return Secret(value)
    raise NotImplementedError(kind)


def _password_from_file(settings: Settings) -> Settings:
    if not settings.password_file or settings.password is not None:
        return settings
    try:
        text = Path(settings.password_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError("password_file", settings.sources["password_file"], f"it cannot be read: {error}.") from error
    return msgspec.structs.replace(settings, password=Secret(text.rstrip("\r\n")))


def _instead(key: _Key) -> str:
    if key[0] == "listeners":
        return f"A listener takes {_listed(_LISTENER_TYPES)}, below listeners and its name."
    names = [shown_key(known) for known in _TYPES]
    close = closest(shown_key(key), names)
    return f"Did you mean {close}?" if close else f"There are {_listed([*names, 'listeners'])}."


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _accepted(kind: Any) -> str:
    return " or ".join(_words(inspect.type_info(kind)))


def _words(info: inspect.Type) -> Iterator[str]:
    match info:
        case inspect.UnionType():
            for part in info.types:
                yield from _words(part)
        case inspect.LiteralType():
            yield from (f'"{value}"' for value in info.values)
        case inspect.IntType():
            yield "a whole number" + _from(info.ge)
        case inspect.FloatType():
            yield "a number" + (_from(info.ge) if info.gt is None else f" above {info.gt:g}")
        case inspect.BoolType():
            yield "true or false"
        case inspect.NoneType():
            return
        case _:
            yield "text"


def _from(least: float | None) -> str:
    return "" if least is None else f" from {least:g}"
