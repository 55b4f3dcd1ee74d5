"""The settings of an application, as one frozen record. Arguments override the environment; the environment overrides a file.

Reads `mqflow.toml`, `[tool.mqflow]` of a pyproject.toml and the environment. msgspec converts and checks each value. An error
names the key, the source and the accepted values. This file knows no queue manager and no command line.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct, field, inspect

from mqflow.app.errors import ConfigurationError
from mqflow.policy.did_you_mean import closest
from mqflow.policy.reconnect.delays import LADDER, DelaysError, Ladder, parse_delays

__all__ = (
    "HTTPSettings",
    "LedgerSettings",
    "ListenerSettings",
    "QueueManagerSettings",
    "ReconnectSettings",
    "Secret",
    "Settings",
    "SettingsError",
    "TLSSettings",
    "load",
    "mistyped_listeners",
    "mistyped_queue_managers",
    "password_reader",
    "secret_in",
    "shown_key",
    "url_is_set",
)

_Seconds = Annotated[float, Meta(ge=0)]
_Count = Annotated[int, Meta(ge=1)]
_URL: Final = "embedded:./data?qmgr=QM1"
_BY_HAND: Final = "Settings(...)"
"""The source of values that no call of `load` has found."""


class Secret:
    """A value that mqflow does not show in a repr, a log, an error or `mqflow explain`. Only `reveal()` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not isinstance(value, str):
            raise TypeError(f"Secret(...): it takes a text, and the value has the type {type(value).__name__}.")
        self._value = value

    def reveal(self) -> str:
        """Return the secret value."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash((Secret, self._value))


class _FromFile(Secret):
    """The content that a password file had when the settings were made."""

    __slots__ = ()


class LedgerSettings(Struct, frozen=True, kw_only=True):
    """The settings of the decision ledger, the file that has the history of messages (see `mqflow why`)."""

    #: "troubled": messages that failed or needed a decision; "all": every delivery; "nothing": no ledger.
    record: Literal["troubled", "all", "nothing"] = "troubled"
    #: The file of the ledger; empty for `decisions.db` beside the data.
    file: str = ""
    #: The largest number of entries. If there are more, the ledger deletes the oldest.
    entries_max: _Count = 200_000


class TLSSettings(Struct, frozen=True, kw_only=True):
    """The TLS settings of a channel to IBM MQ. The names are those of MQ."""

    #: SSLCIPH: the cipher spec of the channel, for example ANY_TLS12_OR_HIGHER; empty for a channel without TLS.
    cipher_spec: str = ""
    #: SSLKEYR: the key repository, a file of certificates and keys.
    key_repository: str = ""
    #: A file with the password of the key repository; its line end is ignored. Empty if a stash file has the password.
    key_repository_password_file: str = ""
    #: CERTLABL: the label of the client certificate in the key repository.
    certificate_label: str = ""
    #: SSLPEER: a pattern that the name in the queue manager's certificate must match, for example "CN=mq.example".
    peer_name: str = ""


class HTTPSettings(Struct, frozen=True, kw_only=True):
    """The settings of the pages for probes, metrics and status."""

    #: Where `mqflow run` serves the pages: "127.0.0.1:8080", or only a port, on the loopback interface. Empty for no pages.
    address: str = ""


class ReconnectSettings(Struct, frozen=True, kw_only=True):
    """The settings for reconnecting after an outage (IBM calls this automatic client reconnection)."""

    #: The queue manager to reconnect to, as in CLIENTRECONNECTOPTIONS. QMGR: only the same queue manager. ANY: any queue
    #: manager of its group. ASDEF: as DefRecon says, or else the channel. DISABLED: no reconnection.
    mode: Literal["ANY", "ASDEF", "DISABLED", "QMGR"] = "QMGR"
    #: The delay before each attempt in milliseconds, in the form of ReconDelay in mqclient.ini: "(1000,250)(2000,500)".
    #: Empty for the delays of the IBM MQ classes for JMS.
    delays: str = ""
    #: The application gives up after this many seconds; None for no limit.
    limit_s: _Seconds | None = None
    #: At its start, the application waits this many seconds for a queue manager that cannot be reached; infinity for no limit.
    #: With None, `mqflow run` waits without a limit, and other programs get the error immediately.
    start_limit_s: _Seconds | None = None

    @property
    def ladder(self) -> Ladder:
        """The delays in seconds. Raises `DelaysError` if `delays` has another form; `load` has already checked it."""
        return parse_delays(self.delays) if self.delays else LADDER


# Because of `omit_defaults`, `to_builtins` returns only the fields that a source has set.
class ListenerSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings that replace the options of one listener. None means the option in the decorator."""

    #: The number of workers of the listener. The application does not start with 2 or more for a listener in strict order.
    concurrency: _Count | None = None
    #: The largest number of messages in one unit of work, or in a batch. The application does not start with it for a listener
    #: in strict order, or of message groups.
    unit_of_work: _Count | None = None
    #: "queue" for the BOTHRESH of the queue, or a number; 0 means that no message is poison.
    backout_threshold: Annotated[int, Meta(ge=0)] | Literal["queue"] | None = None
    #: The backout requeue queue, instead of BOQNAME.
    backout_requeue_queue: str | None = None
    #: The time limit of a handler in seconds.
    time_limit_s: Annotated[float, Meta(gt=0)] | None = None


class QueueManagerSettings(Struct, frozen=True, kw_only=True):
    """The settings of a further queue manager of an application. All other settings have the values of `Settings`.

    User, password and TLS never come from `Settings`, so no queue manager gets the password of another.
    """

    #: The URL of the queue manager; empty for the URL of its `App`.
    url: str = ""
    #: The user that connects.
    user: str = ""
    #: Comes from MQFLOW_QUEUE_MANAGERS_NAME_PASSWORD, otherwise from `password_file`, never from a settings file.
    password: Secret | None = None
    #: A file with the password; its line end is ignored.
    password_file: str = ""
    #: See `Settings.token_file`.
    token_file: str = ""
    #: TLS on the channel to IBM MQ.
    tls: TLSSettings = TLSSettings()

    def __post_init__(self) -> None:
        _check_password(self)


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of an application, as `load` returns them. The names of the fields are the keys of `mqflow.toml`."""

    #: The URL of the queue manager.
    url: str = _URL
    #: The user that connects.
    user: str = ""
    #: Comes from MQFLOW_PASSWORD, otherwise from `password_file`, never from a settings file.
    password: Secret | None = None
    #: A file with the password; its line end is ignored.
    password_file: str = ""
    #: A file with a JSON web token, used instead of user and password (IBM MQ through ibmmq). It is read at each connection.
    token_file: str = ""
    #: TLS on the channel to IBM MQ.
    tls: TLSSettings = TLSSettings()
    #: True to allow a channel table (CCDT) over http. Others on the network can change such a table. https is always allowed.
    ccdt_over_http: bool = False
    #: The application name for the queue manager, the PutApplName of messages; empty for the name of the `App`.
    application_name: str = ""
    #: True if the APPLTAG of each connection names the application, the process and the listener. This text is then also the
    #: PutApplName of messages that a handler puts.
    tag_connections: bool = False
    #: The seconds that handlers have to finish after SIGTERM. Must be less than the grace period of the orchestrator.
    drain_s: _Seconds = 25.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    #: The log of `mqflow run`: lines for people, or a JSON object on each line.
    log_format: Literal["console", "json"] = "console"
    #: The staging queue for delayed messages. Empty for the default: SYSTEM.DDELAY.LOCAL.QUEUE on an embedded queue manager,
    #: MQFLOW.DDELAY.QUEUE on IBM MQ. On IBM MQ, an administrator must define the queue.
    delay_queue: str = ""
    #: If `Retry(after=...)` asks for more seconds, the message waits on the staging queue. This needs a delay processor.
    retry_in_worker_s: _Seconds = 5.0
    #: The queue that gets a record of each decision, for example MQFLOW.DISPOSITION; empty for no records.
    disposition_queue: str = ""
    #: The decision ledger.
    ledger: LedgerSettings = LedgerSettings()
    #: The pages for probes, metrics and status; off by default.
    http: HTTPSettings = HTTPSettings()
    #: True to ask the command server of IBM MQ for the age of the oldest message on each queue (PCF: Inquire Queue Status). For
    #: this, the user needs PUT on SYSTEM.ADMIN.COMMAND.QUEUE, and DSP on the queues.
    queue_status: bool = False
    #: The settings for reconnecting after an outage.
    reconnect: ReconnectSettings = ReconnectSettings()
    #: True if `mqflow run` adds OpenTelemetry to the application. OpenTelemetry's own variables set providers and exporters.
    telemetry: bool = False
    #: The settings of listeners, by the name of the queue or of the listener; see the method `listener`.
    listeners: Mapping[str, ListenerSettings] = field(default_factory=dict[str, ListenerSettings])
    #: The settings of further queue managers, by the name of the included `App`; see the method `of_queue_manager`.
    queue_managers: Mapping[str, QueueManagerSettings] = field(default_factory=dict[str, QueueManagerSettings])
    #: The source of each value that is not a default, by key: "environment (MQFLOW_DRAIN_S)".
    sources: Mapping[str, str] = field(default_factory=dict[str, str])
    #: A sentence for each `MQFLOW_` variable that mqflow does not know and therefore ignores.
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_password(self)

    def url_over(self, declared: str | None) -> str:
        """Return the URL to use: the URL of these settings if it is set, otherwise `declared`, otherwise the default.

        It is set if a source has set it, or if it is not the default. It replaces the URL in the code, because the same image
        runs in development and in production.
        """
        return self.url if url_is_set(self) or not declared else declared

    def listener(self, name: str, queue: str) -> ListenerSettings:
        """Return the settings for the listener's name. Fields that are not set there come from the settings for its queue."""
        fields: dict[str, Any] = {}
        for key in map(_listener_key, (queue, name)):
            found = next((settings for known, settings in self.listeners.items() if _listener_key(known) == key), None)
            fields |= msgspec.to_builtins(found or {})
        return ListenerSettings(**fields)

    def of_queue_manager(self, name: str) -> "Settings":
        """Return the settings of the application for another of its queue managers, with the connection settings of this name.

        Raises `SettingsError` if the file of the password cannot be read.
        """
        found = next((known for known in self.queue_managers if _listener_key(known) == _listener_key(name)), None)
        own = QueueManagerSettings() if found is None else self.queue_managers[found]
        fields = {key: getattr(own, key) for key in own.__struct_fields__ if key != "url"}  # both records have these fields
        parts = {key: source for key, source in self.sources.items() if key.split(".")[0] not in own.__struct_fields__}
        above = "" if found is None else f"{shown_key(('queue_managers', found))}."
        if found is not None:
            parts |= {"url": _BY_HAND} if own.url else {}
            parts |= {key.removeprefix(above): each for key, each in self.sources.items() if key.startswith(above)}
        return _with_password(msgspec.structs.replace(self, url=own.url, sources=parts, **fields), above)


def _check_password(settings: Settings | QueueManagerSettings) -> None:
    """Raise `SettingsError` for a password that is no `Secret`, because a repr or a log would show it."""
    password: object = settings.password
    if password is not None and not isinstance(password, Secret):
        problem = f'this {type(password).__name__} is not accepted; it takes Secret("...") of {Secret.__module__}.'
        raise SettingsError("password", f"{type(settings).__name__}(...)", problem)


def check_settings(settings: object) -> None:
    """Raise an error if the object is not a `Settings`, or if it has a value that no source may give.

    The error is a `ConfigurationError` or a `SettingsError`.
    """
    if not isinstance(settings, Settings):
        raise ConfigurationError(f"App(settings={type(settings).__name__}): it takes Settings(...), or None to load them.")
    for key, value in _values(settings):
        _convert_value(key, _Given(value, _BY_HAND))
    _check_delays(settings)


def url_is_set(settings: Settings) -> bool:
    """Return whether these settings have a URL that a source has set, or that is not the default. An empty URL is not set."""
    return settings.url != "" and ("url" in settings.sources or settings.url != _URL)


def password_reader(settings: Settings) -> Callable[[], str] | None:
    """Return a function that returns the password, or None if the settings have no password.

    The function reads a password file at each call, because its content can change. It raises `OSError` and `ValueError` as
    `secret_in` does. If the settings have both a password and a password file, it returns the password.
    """
    password = settings.password
    if settings.password_file and (password is None or isinstance(password, _FromFile)):
        return partial(secret_in, settings.password_file)
    return None if password is None else password.reveal


def secret_in(path: str) -> str:
    """Return the text in the file, without byte order mark and line end. Raises `OSError`, or `ValueError` if not UTF-8."""
    return Path(path).read_text(encoding="utf-8-sig").rstrip("\r\n")


def mistyped_listeners(settings: Settings, known: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each name in `settings.listeners` that is unknown but similar to a known name.

    An unknown name that is not similar gives no warning, because several applications can share a file.
    """
    return _mistyped("listener", settings.listeners, known)


def mistyped_queue_managers(settings: Settings, known: Iterable[str]) -> Iterator[str]:
    """Yield a warning for each name in `settings.queue_managers` that is unknown but similar to a known name.

    Without the warning, an included application silently uses the URL in the source code, and no user.
    """
    return _mistyped("queue manager", settings.queue_managers, known)


def _mistyped(what: str, given: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    names = {_listener_key(name): name for name in known}
    for name in given:
        key = _listener_key(name)
        if key not in names and (close := closest(key, names)):
            yield f"There are settings for a {what} {name!r}, but no such {what}. Did you mean {names[close]!r}?"


class SettingsError(ValueError):
    """A setting, or without a key a whole source, cannot be used. The text names key, source and accepted values."""

    def __init__(self, key: str, source: str, problem: str) -> None:
        super().__init__(f"{f'Setting {key}' if key else 'Settings'} from {source}: {problem}")
        self.key = key
        self.source = source


class _Given(NamedTuple):
    """A value from a source. `strict` is false if the value is a text that can mean a number or a truth value."""

    value: object
    source: str
    strict: bool = True


_Key = tuple[str, ...]
_Layer = dict[_Key, _Given]

_SHOWN_CHARS: Final = 80
_PREFIX: Final = "MQFLOW_"
_CONFIG_VARIABLE: Final = "MQFLOW_CONFIG"
_TOOL_TABLE: Final = r"""^\s*\[?\s*["']?tool["']?\s*(\]|=|\.\s*["']?mqflow)"""
"""A line of a pyproject.toml that begins [tool.mqflow] or [tool], or a key of them."""
_NO_SETTINGS: Final = frozenset(
    {_CONFIG_VARIABLE, "MQFLOW_CONTROL_FOLDER", "MQFLOW_DEBUG", "MQFLOW_NOTES_FILE", "MQFLOW_WORKER"}
)
"""Variables that belong to a command or to a host. They have no key in a settings file."""
_OTHER_PREFIXES: Final = ("MQFLOW_ALERT_", "MQFLOW_STANDIN_", "MQFLOW_TEST_")
"""Prefixes of variables that are not settings: for `mqflow spark stream`, `mqflow standin run`, and test runs."""


def load(
    arguments: Mapping[str, object] | None = None, *, environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Settings:
    """Return the settings. Arguments override `MQFLOW_*` variables; these override `mqflow.toml` or `[tool.mqflow]`.

    An argument that is None counts as not given. The file is searched in `folder` (default: the current folder) and in the
    folders above it, unless MQFLOW_CONFIG names it. Raises `SettingsError` for an unknown key, for a value of the wrong kind,
    and for a file that cannot be read. An unknown variable gives only a warning, because orchestrators set such variables
    (MQFLOW_PORT). Raises `TypeError` for arguments that are no dict.
    """
    if arguments is not None and not isinstance(arguments, Mapping):
        raise TypeError(f"load({arguments!r:.40}): it takes a dict of settings: load({{'drain_s': 5}}).")
    environment = os.environ if environment is None else environment
    given: _Layer = {}
    warnings: list[str] = []
    for layer in (
        _from_file(environment, Path(folder or "")),
        _from_environment(environment, warnings),
        {key: _Given(value, "an argument") for key, value in _leaves((), arguments or {}) if value is not None},
    ):
        _merge(given, layer)
    settings = _with_password(_convert(given, warnings))
    _check_delays(settings)
    return settings


def shown_key(key: tuple[str, ...]) -> str:
    """Return the key as a TOML file would write it: ``listeners."ORDERS.IN".concurrency``."""
    return ".".join(part if part.replace("_", "").isalnum() else f'"{part}"' for part in key)


def _listener_key(name: str) -> str:
    # The name of a variable has neither dots nor slashes, so MQFLOW_LISTENERS_ORDERS_IN_* is for the queue ORDERS.IN.
    return "".join(c if c.isalnum() else "_" for c in name).upper()


def _merge(given: _Layer, layer: _Layer) -> None:
    """Put the values of `layer` into `given`; they replace weaker values. A listener's name keeps its first spelling."""
    names: dict[str, str] = {}
    for key in given:
        match key:
            case (str(table), name, *_) if table in _TABLES:
                names[table + _listener_key(name)] = name
    for key, value in layer.items():
        match key:
            case (str(table), name, *rest) if table in _TABLES:
                given[table, names.setdefault(table + _listener_key(name), name), *rest] = value
            case _:
                given[key] = value


def _from_environment(environment: Mapping[str, str], warnings: list[str]) -> _Layer:
    layer: _Layer = {}
    for variable, text in environment.items():
        if not variable.startswith(_PREFIX) or variable in _NO_SETTINGS or variable.startswith(_OTHER_PREFIXES):
            continue
        _check_is_text(variable, text)
        key = _VARIABLES.get(variable) or _named_variable(variable)
        if key is None:
            close = closest(variable, _VARIABLES)
            warnings.append(f"{variable} is not a setting, so it is ignored." + (f" Did you mean {close}?" if close else ""))
        elif text or key[-1] != "password":  # an empty variable is no password
            # If `strict` is false, msgspec reads "5" as a number, but also "null" as None. A variable cannot mean "not set".
            layer[key] = _Given(text, f"environment ({variable})", strict=text.lower() == "null")
    return layer


def _check_is_text(variable: str, text: str) -> None:
    """Raise `SettingsError` if the text has bytes that are not UTF-8. Python keeps such bytes as surrogates."""
    try:
        (variable + text).encode()
    except UnicodeEncodeError:
        shown = variable.encode("utf-8", "backslashreplace").decode()
        problem = "its bytes are not UTF-8."
        raise SettingsError("(any)", f"environment ({shown})", problem) from None  # the error has the text, perhaps a password


def _variable(key: _Key) -> str:
    return _PREFIX + "_".join(key).upper()


def _named_variable(variable: str) -> _Key | None:
    """Return the key of a variable for one listener or queue manager, whose name is a part of the variable's name."""
    for table, kinds in _TABLES.items():
        rest = variable.removeprefix(f"{_PREFIX}{table.upper()}_")
        for key in sorted(kinds, key=len, reverse=True):
            name = rest.removesuffix("_" + "_".join(key).upper())
            if rest not in {variable, name} and name:
                return (table, name, *key)
    return None


def _from_file(environment: Mapping[str, str], folder: Path) -> _Layer:
    named = environment.get(_CONFIG_VARIABLE)
    if named:
        if not _is_file(Path(named)):
            raise SettingsError("", _CONFIG_VARIABLE, f"there is no file {named}.")
        file = Path(named)
        return _table_layer(file, _tool_table(file) if named.endswith("pyproject.toml") else _toml(file))
    for place in (folder.absolute(), *folder.absolute().parents):
        own, shared = place / "mqflow.toml", place / "pyproject.toml"
        if _is_file(own):
            return _table_layer(own, _toml(own))
        if _is_file(shared) and _may_have_settings(shared) and (table := _tool_table(shared)):
            return _table_layer(shared, table)
    return {}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # for example a folder that this user cannot search
        return False


def _may_have_settings(pyproject: Path) -> bool:
    """Return whether the file can have [tool.mqflow]. To load tomllib and to parse a file takes some milliseconds."""
    try:
        return re.search(_TOOL_TABLE, pyproject.read_text(encoding="utf-8-sig"), re.MULTILINE) is not None
    except (OSError, ValueError):
        return True  # `_toml` says why it cannot be read


def _toml(path: Path) -> dict[str, Any]:  # `Any` as in tomllib: a table holds values of any kind
    import tomllib  # noqa: PLC0415 - an application without such a file does not load it

    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:  # tomllib can also raise errors of `int`
        raise SettingsError("", str(path), f"the file cannot be read as TOML: {error}.") from error


def _tool_table(pyproject: Path) -> Mapping[str, object]:
    """Return [tool.mqflow] of the file; empty if the file has no such table."""
    tool = _toml(pyproject).get("tool", {})
    table = tool.get("mqflow", {}) if isinstance(tool, Mapping) else tool
    if not isinstance(table, Mapping):
        raise SettingsError("", str(pyproject), "[tool.mqflow] is not a table.")
    return table


def _table_layer(path: Path, table: Mapping[str, object]) -> _Layer:
    layer = {key: _Given(value, str(path)) for key, value in _leaves((), table)}
    for key in layer:
        if key[-1] == "password" and key in {("password",), ("queue_managers", *key[1:2], "password")}:
            named = tuple(map(_listener_key, key))  # the name of a variable has no dots
            problem = f"a password must not be in a file that may be checked in; use password_file, or {_variable(named)}."
            raise SettingsError(shown_key(key), str(path), problem)
    return layer


def _leaves(above: _Key, table: Mapping[str, object]) -> Iterator[tuple[_Key, object]]:
    for name, value in table.items():
        key = (*above, name)
        if isinstance(value, Mapping):
            yield from _leaves(key, value)
        else:
            yield key, value


# The kinds below are type annotations. msgspec has no narrower type for them than `Any`.


def _kinds(record: type[Struct], above: _Key = ()) -> Iterator[tuple[_Key, Any]]:
    for info in msgspec.structs.fields(record):
        if isinstance(info.type, type) and issubclass(info.type, Struct):
            yield from _kinds(info.type, (*above, info.name))
        else:
            yield (*above, info.name), info.type


def _values(record: Struct, above: _Key = ()) -> Iterator[tuple[_Key, object]]:
    """Yield each value of settings made by hand, with its key. Raise `SettingsError` for a value in the place of a record."""
    for info in msgspec.structs.fields(record):
        key, value = (*above, info.name), getattr(record, info.name)  # the name of a field
        if key in {("sources",), ("warnings",)}:
            continue
        if key[0] in _RECORDS and not above:
            if not isinstance(value, Mapping):
                raise _not_accepted(key, value, f"a dict of {_RECORDS[key[0]].__name__}(...)")
            for name, each in value.items():
                yield from _values(_record((*key, name), each, _RECORDS[key[0]]), (*key, name))
        elif isinstance(info.type, type) and issubclass(info.type, Struct):
            yield from _values(_record(key, value, info.type), key)
        else:
            yield key, value


def _record(key: _Key, value: object, kind: type[Struct]) -> Struct:
    if not isinstance(value, kind):
        raise _not_accepted(key, value, f"{kind.__name__}(...)")
    return value


def _not_accepted(key: _Key, value: object, kind: str) -> SettingsError:
    return SettingsError(shown_key(key), _BY_HAND, f"{_shortened(repr(value))} is not accepted; it takes {kind}.")


#: The records of the tables whose own keys are names that the user chooses.
_RECORDS: Final[Mapping[str, type[Struct]]] = {"listeners": ListenerSettings, "queue_managers": QueueManagerSettings}
#: The kinds of the keys in these tables.
_TABLES: Final = {name: dict(_kinds(record)) for name, record in _RECORDS.items()}
#: The kind of every key that has a fixed name: all keys except those in `_TABLES`.
_TYPES: Final = {key: kind for key, kind in _kinds(Settings) if key[0] not in {*_TABLES, "sources", "warnings"}}
_VARIABLES: Final = {_variable(key): key for key in _TYPES}


def _convert(given: _Layer, warnings: Iterable[str]) -> Settings:
    """Return the settings of these values. Raises `SettingsError` for the first key or value that cannot be used."""
    table: dict[str, Any] = {}
    for key, value in given.items():
        below = table
        for part in key[:-1]:
            below = below.setdefault(part, {})
        below[key[-1]] = _convert_value(key, value)
    sources = {shown_key(key): each.source for key, each in given.items()}
    return msgspec.convert(table | {"sources": sources, "warnings": tuple(warnings)}, Settings, dec_hook=_secret)


def _convert_value(key: _Key, given: _Given) -> Any:
    match key:
        case (str(table), _, *rest) if table in _TABLES:
            kind = _TABLES[table].get(tuple(rest))
        case _:
            kind = _TYPES.get(key)
    if kind is None:
        raise SettingsError(shown_key(key), given.source, f"there is no such setting. {_suggestion(key)}")
    try:
        return msgspec.convert(given.value, kind, strict=given.strict, dec_hook=_secret)
    except msgspec.ValidationError as error:
        shown = "the value given" if kind == Secret | None else _shortened(repr(given.value))
        raise SettingsError(shown_key(key), given.source, f"{shown} is not accepted; it takes {_accepted(kind)}.") from error


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def _secret(_: type, value: object) -> object:
    """Return a text as a `Secret`, the only type here that msgspec does not know. Refuse any other value."""
    return Secret(value) if isinstance(value, str) else value


def _with_password(settings: Settings, above: str = "") -> Settings:
    """Return the settings. If they have no password, add the password in `password_file`, whose key begins with `above`."""
    if not settings.password_file or settings.password is not None:
        return settings
    source = settings.sources.get("password_file", _BY_HAND)
    try:
        password = _FromFile(secret_in(settings.password_file))
    except UnicodeDecodeError:  # the error has the bytes of the file
        problem = f"{settings.password_file} is not text in UTF-8."
        raise SettingsError(f"{above}password_file", source, problem) from None
    except (OSError, ValueError) as error:  # ValueError: the path has a NUL
        raise SettingsError(f"{above}password_file", source, f"it cannot be read: {error}.") from error
    sources = {**settings.sources, "password": f"password_file ({settings.password_file})"}
    return msgspec.structs.replace(settings, password=password, sources=sources)


def _check_delays(settings: Settings) -> None:
    try:
        settings.reconnect.ladder  # noqa: B018 - read only for its error
    except DelaysError as error:
        raise SettingsError("reconnect.delays", settings.sources.get("reconnect.delays", _BY_HAND), str(error)) from error


def _suggestion(key: _Key) -> str:
    if key[0] in _TABLES:
        names = [shown_key(each) for each in _TABLES[key[0]]]
        return f"A {key[0].replace('_', ' ')[:-1]} takes {_listed(names)}, below {key[0]} and its name."
    names = [shown_key(known) for known in _TYPES]
    close = closest(shown_key(key), names)
    return f"Did you mean {close}?" if close else f"There are {_listed([*names, *_TABLES])}."


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def _accepted(kind: Any) -> str:
    """Return the accepted values in words: msgspec's errors do not list the words of a Literal, or the ends of a range."""
    info = inspect.type_info(kind)
    parts = info.types if isinstance(info, inspect.UnionType) else (info,)
    return " or ".join(words for part in parts for words in _words(part))


def _words(info: inspect.Type) -> Iterable[str]:
    match info:
        case inspect.LiteralType():
            return [f'"{value}"' for value in info.values]
        case inspect.IntType():
            return ["a whole number" + _minimum(info.ge)]
        case inspect.FloatType():
            return ["a number" + (_minimum(info.ge) if info.gt is None else f" above {info.gt:g}")]
        case inspect.BoolType():
            return ["true or false"]
        case inspect.NoneType():
            return []
        case _:
            return ["text"]


def _minimum(least: float | None) -> str:
    return "" if least is None else f" from {least:g}"
