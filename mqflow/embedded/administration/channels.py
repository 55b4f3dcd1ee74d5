"""The running channels and listeners of client programs, and the administration of channel authentication records.

The listener for client programs registers its sockets with `RunningChannels`. The store does not keep which channels are
stopped: after a restart of the queue manager, client programs can use every channel again.
Source: IBM q016340 (the status of a SVRCONN).
"""

import threading
from typing import Final

from msgspec.structs import replace as changed

from mqflow.embedded.calls.object_records import change_objects, defined_objects, records
from mqflow.embedded.calls.pending_answer import Pending, carry_out
from mqflow.embedded.rules.channel_authentication import (
    ADMINISTRATORS_WORD,
    ChannelRule,
    Connecting,
    RuleType,
    UserSource,
    address_blocks,
    admission,
    is_address_pattern,
    is_channel_pattern,
)
from mqflow.embedded.rules.channel_instances import (
    ChannelSettings,
    ChannelStatus,
    ListenerStatus,
    RunningChannel,
    RunningListener,
    why_not_one_more,
)
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.stored_objects import kind_of
from mqflow.embedded.state.users import USER_CHARS
from mqflow.mqi.attributes.channel import ChannelType
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("ChannelDefinitions", "RunningChannels")

_STOPPED: Final = 6


class RunningChannels:
    """The channels and listeners of client programs that run now. Any thread can call the methods."""

    def __init__(self, state: QueueManagerState) -> None:
        self._state = state
        self._guard = threading.Lock()
        self._running: dict[RunningChannel, tuple[str, str]] = {}
        #: Each listener, with the date and time of its start, or None while the listener accepts no connections.
        self._listeners: dict[RunningListener, tuple[str, str] | None] = {}
        self._stopped: set[str] = set()

    def begin(self, channel: RunningChannel, settings: ChannelSettings) -> None:
        """Count one more instance of the channel. Raises 2537 if the channel is stopped or has reached its limit."""
        started = self._now()
        with self._guard:
            running = [each.status() for each in self._running] if settings.is_limited else []
            refused = why_not_one_more(settings, channel.status().address, running, stopped=settings.name in self._stopped)
            if refused is None:
                self._running[channel] = started
                return
        reason, detail = refused
        raise error_for(reason, "MQCONNX", settings.name, self._state.name, detail)

    def ended(self, channel: RunningChannel) -> None:
        """Forget a channel instance that has ended. Do nothing if the instance was never counted."""
        with self._guard:
            self._running.pop(channel, None)

    def listens(self, listener: RunningListener) -> None:
        """Add a listener that accepts connections from now on."""
        started = self._now()
        with self._guard:
            self._listeners[listener] = started

    def listens_no_more(self, listener: RunningListener) -> None:
        """Remove a listener that has stopped accepting connections."""
        with self._guard:
            self._listeners.pop(listener, None)

    def statuses(self) -> tuple[ChannelStatus, ...]:
        """Return the running channels, and the stopped channels that have no connection, sorted by name."""
        with self._guard:
            running, stopped = dict(self._running), set(self._stopped)
        found = [self._dated(channel.status(), started) for channel, started in running.items()]
        found += [ChannelStatus(name=name, status=_STOPPED) for name in stopped - {each.name for each in found}]
        return tuple(sorted(found, key=lambda each: (each.name, each.address, each.started_date, each.started_time)))

    def start(self, name: str) -> None:
        """Allow new instances of the channel."""
        with self._guard:
            self._stopped.discard(name)

    def stop(self, name: str, address: str, *, stays_stopped: bool) -> int:
        """End all instances of the channel, or only the instances of one client address. Return how many end."""
        with self._guard:
            if stays_stopped:
                self._stopped.add(name)
            statuses = {channel: channel.status() for channel in self._running}
        ending = [channel for channel, status in statuses.items() if status.name == name and address in {"", status.address}]
        for channel in ending:
            channel.end()
        return len(ending)

    def listeners(self) -> tuple[ListenerStatus, ...]:
        """Return the listeners that accept connections, sorted by name."""
        with self._guard:
            running = [(listener, started) for listener, started in self._listeners.items() if started is not None]
        found = [changed(listener.status(), started_date=date, started_time=time) for listener, (date, time) in running]
        return tuple(sorted(found, key=lambda each: (each.name, each.port)))

    def switch_listeners(self, name: str, *, accepts: bool) -> int:
        """Start or stop the listeners of this name; return how many changed. Raises `OSError` if an address cannot be used."""
        with self._guard:
            known = dict(self._listeners)
        found = [each for each, started in known.items() if (started is None) is accepts and each.status().name == name]
        for listener in found:
            (listener.start_listening if accepts else listener.stop_listening)()
            started = self._now() if accepts else None
            with self._guard:
                if listener in self._listeners:
                    self._listeners[listener] = started
        return len(found)

    def _dated(self, status: ChannelStatus, started: tuple[str, str]) -> ChannelStatus:
        with self._state.lock:
            date, time = self._state.as_text(status.last_call_s)
        return changed(status, last_call_date=date, last_call_time=time, started_date=started[0], started_time=started[1])

    def _now(self) -> tuple[str, str]:
        with self._state.lock:
            return self._state.now_as_text()


class ChannelDefinitions:
    """`ChannelAdministration` of one queue manager."""

    def __init__(self, state: QueueManagerState, running: RunningChannels) -> None:
        self._state = state
        self._running = running

    def rules(self) -> tuple[ChannelRule, ...]:
        """Return all channel authentication records, sorted by channel profile."""
        with self._state.lock:
            return tuple(sorted(records(self._state, ChannelRule).values(), key=lambda rule: (rule.profile, rule.key)))

    def deciding_rule(self, channel: str, address: str, user: str) -> ChannelRule | None:
        """Return the record that accepts or refuses a client program, or None.

        A record with WARN(YES) refuses no program, so any other record comes before a BLOCKADDR record with WARN(YES).
        """
        from ipaddress import ip_address  # noqa: PLC0415 - applications that ask for no record need none

        self._known("DISPLAY CHLAUTH", channel)
        try:
            ip_address(address)
        except ValueError:
            detail = f"ADDRESS({address}) is not an IP address"
            raise error_for(Reason.ITEM_VALUE_ERROR, "DISPLAY CHLAUTH", channel, self._state.name, detail) from None
        with self._state.lock:
            mca_user = str(defined_objects(self._state, "CHANNEL")[channel].values["mca_user"])
            asking = Connecting(channel=channel, address=address, user=user, mca_user=mca_user)
            rules = tuple(records(self._state, ChannelRule).values())
            decided = admission(rules, asking, self._state.authorities.administers)
        blocking = address_blocks(rules, address)
        if blocking is not None and not blocking.warn:
            return blocking
        return decided.blocked_by or decided.mapping or blocking

    def set_rule(self, rule: ChannelRule, *, replace: bool = False) -> None:
        """Set a record. Without `replace`, raises 3337 if the record exists already."""
        carry_out(self._state, "SET CHLAUTH", rule.profile, lambda: self._set(rule, replacing=replace))

    def remove_rule(self, rule: ChannelRule) -> None:
        """Remove the record with the profile, type and partner of `rule`. Raises 3338 if no record has them."""
        carry_out(self._state, "SET CHLAUTH", rule.profile, lambda: self._remove(rule))

    def remove_rules(self, profile: str, type: RuleType) -> None:  # noqa: A002 - as in the interface
        """Remove all records of a profile and a type. Raises 3338 if no record has them."""

        def begin() -> Pending[None]:
            found = [
                each for each in records(self._state, ChannelRule).values() if (each.profile, each.type) == (profile, type)
            ]
            return self._change({each.key: None for each in found})

        carry_out(self._state, "SET CHLAUTH", profile, begin)

    def statuses(self) -> tuple[ChannelStatus, ...]:
        """Return the running channels, and the stopped channels that have no connection, sorted by name."""
        return self._running.statuses()

    def start(self, name: str) -> None:
        """Let client programs use a server-connection channel again. Raises 4032 if the channel does not exist."""
        self._known("START CHANNEL", name)
        self._running.start(name)

    def stop(self, name: str, *, address: str = "", stays_stopped: bool = True) -> None:
        """End the instances of a channel. With `stays_stopped`, refuse new instances until `start`."""
        from mqflow.mqi.pcf.codes import PCFReason  # noqa: PLC0415 - applications that stop no channel do not need PCF

        if not any(each.name == name for each in self._running.statuses()):
            self._known("STOP CHANNEL", name)
        if not self._running.stop(name, address, stays_stopped=stays_stopped) and not stays_stopped:
            detail = f"No client{' at ' + address if address else ''} uses it; DISPLAY CHSTATUS({name}) shows who does"
            raise error_for(PCFReason.CHANNEL_NOT_ACTIVE, "STOP CHANNEL", name, self._state.name, detail)

    def listeners(self) -> tuple[ListenerStatus, ...]:
        """Return the running listeners, sorted by name."""
        return self._running.listeners()

    def start_listener(self, name: str) -> None:
        """Start a stopped listener. Raises 3249 if the listener runs already, and 2298 if this process has no such listener."""
        from mqflow.mqi.pcf.codes import PCFReason  # noqa: PLC0415 - as in `stop`

        try:
            if self._running.switch_listeners(name, accepts=True):
                return
        except OSError as error:
            detail = f"Its address cannot be used: {error.strerror}"
            raise error_for(Reason.HOST_NOT_AVAILABLE, "START LISTENER", name, self._state.name, detail) from error
        if any(each.name == name for each in self._running.listeners()):
            raise error_for(PCFReason.LISTENER_RUNNING, "START LISTENER", name, self._state.name, "It runs already")
        self._defined_listener("START LISTENER", name)
        detail = "The process that serves the queue manager has no such listener: mqflow qmgr serve --mq HOST:PORT makes one"
        raise error_for(Reason.FUNCTION_NOT_SUPPORTED, "START LISTENER", name, self._state.name, detail)

    def stop_listener(self, name: str) -> None:
        """Make a listener refuse new connections. Raises 3234 if no such listener runs."""
        from mqflow.mqi.pcf.codes import PCFReason  # noqa: PLC0415 - as in `stop`

        if not self._running.switch_listeners(name, accepts=False):
            self._defined_listener("STOP LISTENER", name)
            detail = "It does not run; DISPLAY LSSTATUS(*) shows the listeners that do"
            raise error_for(PCFReason.LISTENER_STOPPED, "STOP LISTENER", name, self._state.name, detail)

    def _defined_listener(self, verb: str, name: str) -> None:
        with self._state.lock:
            known = name in defined_objects(self._state, "LISTENER")
        if not known:
            raise error_for(Reason.UNKNOWN_OBJECT_NAME, verb, name, self._state.name)

    def _known(self, verb: str, name: str) -> None:
        from mqflow.mqi.pcf.codes import PCFReason  # noqa: PLC0415 - as in `stop`

        with self._state.lock:
            found = defined_objects(self._state, "CHANNEL").get(name)
        if found is None:
            raise error_for(PCFReason.CHANNEL_NOT_FOUND, verb, name, self._state.name, "There is no such channel")
        if found.kind != ChannelType.SVRCONN:
            detail = "Only client programs connect to this queue manager, through channels of the type SVRCONN"
            raise error_for(Reason.FUNCTION_NOT_SUPPORTED, verb, name, self._state.name, detail)

    def _set(self, rule: ChannelRule, *, replacing: bool) -> Pending[None]:
        _check(rule)
        known = records(self._state, ChannelRule).get(rule.key)
        if known is not None and not replacing:
            if not rule.is_block:
                from mqflow.mqi.pcf.codes import PCFReason  # noqa: PLC0415 - as in `stop`

                raise Refusal(PCFReason.CHLAUTH_ALREADY_EXISTS, f"There is {known.command}; ACTION(REPLACE) replaces it")
            rule = changed(rule, blocked=tuple(dict.fromkeys((*known.blocked, *rule.blocked))))
        return self._change({rule.key: rule})

    def _remove(self, rule: ChannelRule) -> Pending[None]:
        known = records(self._state, ChannelRule).get(rule.key)
        if known is None or not rule.blocked:
            return self._change({} if known is None else {rule.key: None})
        if not set(rule.blocked) & set(known.blocked):
            return self._change({})
        left = tuple(each for each in known.blocked if each not in rule.blocked)
        return self._change({rule.key: changed(known, blocked=left) if left else None})

    def _change(self, wanted: dict[str, ChannelRule | None]) -> Pending[None]:
        """Change records in memory, by their keys; None removes a record. Raises 3338 if `wanted` is empty."""
        if not wanted:
            from mqflow.mqi.pcf.codes import PCFReason  # noqa: PLC0415 - as in `stop`

            raise Refusal(PCFReason.CHLAUTH_NOT_FOUND, "DISPLAY CHLAUTH(*) shows the records")
        date, time = self._state.now_as_text()
        dated = {
            key: None if rule is None else changed(rule, alteration_date=date, alteration_time=time)
            for key, rule in wanted.items()
        }
        return change_objects(self._state, kind_of(ChannelRule), dated)


def _check(rule: ChannelRule) -> None:
    """Refuse with 2319 a record with wrong fields.

    Such a record can never match, or accepts a client program without giving it a user. A blocking record with a partner is
    refused because it would hide the general record of the channel profile from this partner.
    """
    if not is_channel_pattern(rule.profile):
        raise Refusal(
            Reason.ITEM_VALUE_ERROR, f"{rule.profile!r} is no channel name of 20 characters, with asterisks or without"
        )
    if rule.address and not is_address_pattern(rule.address):
        raise Refusal(Reason.ITEM_VALUE_ERROR, f"ADDRESS({rule.address}) is no IP address and no pattern like 192.0.2.*")
    if rule.is_block:
        if rule.address or rule.client_user or rule.mca_user:
            raise Refusal(Reason.ITEM_VALUE_ERROR, f"A {rule.type} takes neither ADDRESS nor CLNTUSER nor MCAUSER")
        _check_list(rule)
        return
    if (rule.type is RuleType.USERMAP) != bool(rule.client_user):
        raise Refusal(Reason.ITEM_VALUE_ERROR, "A USERMAP needs CLNTUSER, and an ADDRESSMAP takes none")
    if rule.type is RuleType.ADDRESSMAP and not rule.address:
        raise Refusal(Reason.ITEM_VALUE_ERROR, "An ADDRESSMAP needs ADDRESS: ADDRESS('*') is every address")
    if (rule.source is UserSource.MAP) != bool(rule.mca_user):
        raise Refusal(Reason.ITEM_VALUE_ERROR, "USERSRC(MAP) needs MCAUSER, and the other sources take none")
    if len(rule.mca_user) > USER_CHARS:
        raise Refusal(Reason.ITEM_VALUE_ERROR, f"A user has at most {USER_CHARS} characters")


def _check_list(rule: ChannelRule) -> None:
    if rule.type is RuleType.BLOCKUSER:
        if not rule.blocked:
            raise Refusal(Reason.ITEM_VALUE_ERROR, f"BLOCKUSER needs USERLIST: users, or {ADMINISTRATORS_WORD}")
    elif not rule.blocked or not all(map(is_address_pattern, rule.blocked)):
        raise Refusal(Reason.ITEM_VALUE_ERROR, "BLOCKADDR needs ADDRLIST: IP addresses, or patterns like 192.0.2.*")
    elif rule.profile != "*":
        raise Refusal(Reason.ITEM_VALUE_ERROR, "A BLOCKADDR is for all channels: SET CHLAUTH('*') TYPE(BLOCKADDR)")
