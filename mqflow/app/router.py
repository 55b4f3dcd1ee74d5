"""`Router`: listeners and publishers that an application includes, with a prefix, middleware and defaults.

This file also checks the arguments that `App` and `Router` have in common: targets, codecs, middleware and options.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar, Unpack, cast

from msgspec import Struct

from mqflow.app.config.plugins import Group, named
from mqflow.app.errors import ConfigurationError
from mqflow.app.handlers import mistakes
from mqflow.app.handlers.codecs import Codec
from mqflow.app.handlers.handler import Where
from mqflow.app.handlers.listener_declaration import ListenerKeywords, ListenerOptions, Publisher, PutsMessages
from mqflow.app.handlers.outgoing_message import PutKeywords, with_codec
from mqflow.runtime.listener.subscriber import TopicSubscription
from mqflow.verbs import Put

__all__ = (
    "HandlerDeclaration",
    "Router",
    "Scope",
    "check_router",
    "chosen_target",
    "codec_of",
    "declaring",
    "layers_of",
    "options_of",
    "scope_of",
)

F = TypeVar("F", bound=Callable[..., Any])

_NO_DEFAULTS: Final[ListenerKeywords] = {}


class Scope(Struct, frozen=True, kw_only=True):
    """The options that one inclusion adds to the declarations of a router."""

    #: The text before the name of each queue that a listener or a publisher declares. Topics keep their names.
    prefix: str = ""
    #: Runs around the handlers, the first one outermost, and inside the middleware of the application.
    middleware: tuple[Any, ...] = ()
    #: The codec for listeners and publishers that have no codec of their own.
    codec: Codec | None = None
    #: The options for listeners that do not set them.
    defaults: ListenerKeywords = _NO_DEFAULTS

    def inside(self, outer: "Scope") -> "Scope":
        """Return this scope inside `outer`: prefixes and middleware are joined; codec and defaults of this scope win."""
        return Scope(
            prefix=outer.prefix + self.prefix,
            middleware=(*outer.middleware, *self.middleware),
            codec=self.codec or outer.codec,
            defaults=_merged(outer.defaults, self.defaults),
        )


class HandlerDeclaration(Struct, frozen=True):
    """One call of `listener`, with the function that it decorates."""

    function: Callable[..., Any]
    #: The name of the queue; empty for a subscription.
    queue: str
    subscription: TopicSubscription | None
    selector: str
    where: Where | None
    codec: Codec | None
    name: str
    options: ListenerKeywords


class Router:
    """The listeners and publishers of a part of an application, in their own module. `App.include_router` includes them.

    `prefix` comes before the name of each queue that a listener or publisher of the router declares. `middleware` runs around
    the handlers of the router and around their puts. `codec` and the other keyword arguments, the fields of `ListenerOptions`,
    are the defaults for the router's listeners. An application can include a router several times, each time with another
    prefix.

    Raises `ConfigurationError` for an argument of another type, and for a plugin that cannot be used.
    """

    def __init__(
        self,
        prefix: str = "",
        *,
        middleware: Sequence[Any] = (),
        codec: Codec | str | None = None,
        **defaults: Unpack[ListenerKeywords],
    ) -> None:
        self._own: Final = scope_of("Router", prefix, middleware, defaults, codec)
        self._listeners: Final[list[HandlerDeclaration]] = []
        self._publishers: Final[list[Publisher]] = []
        self._routers: Final[list[tuple[Router, Scope]]] = []
        #: For each inclusion of this router in an application: its scope, and a function that returns the application.
        self._places: Final[list[tuple[Scope, Callable[[], PutsMessages]]]] = []

    def listener(
        self,
        queue: str = "",
        *,
        topic: str = "",
        durable: str = "",
        selector: str = "",
        character_wildcards: bool = False,
        where: Where | None = None,
        codec: Codec | str | None = None,
        name: str = "",
        **options: Unpack[ListenerKeywords],
    ) -> Callable[[F], F]:
        """Declare the decorated function as a handler. Returns the function unchanged.

        The arguments and errors are those of `App.listener`. The handler is checked when an application includes the router.
        Raises `ConfigurationError` if an application has included the router already.
        """
        wanted = TopicSubscription(topic=topic, durable=durable, selector=selector, character_wildcards=character_wildcards)
        declare = declaring(self._listeners.append, queue, wanted, where, codec, name, options)
        self._check_open(f"listener({queue or topic!r})")
        return declare

    def publisher(
        self,
        queue: str,
        *,
        persistent: bool | None = True,
        priority: int | None = None,
        expiry_s: float | None = None,
        delay: timedelta | float | None = None,
        codec: Codec | str | None = None,
    ) -> Publisher:
        """Return a decorator for handlers of this router. The arguments and errors are those of `App.publisher`.

        The method `put` of the result needs the application and the prefix. It raises `ConfigurationError` if no application
        has included the router, or if it was included more than once.
        """
        mistakes.check_target("publisher", queue, "", of_topics="")
        self._check_open(f"publisher({queue!r})")
        made = Publisher(
            queue=queue,
            persistent=persistent,
            priority=priority,
            expiry_s=expiry_s,
            delay=delay,
            codec=codec_of(codec),
            running=self._run,
            router=self,
        )
        self._publishers.append(made)
        return made

    def include_router(
        self, router: "Router", *, prefix: str = "", middleware: Sequence[Any] = (), **defaults: Unpack[ListenerKeywords]
    ) -> None:
        """Include another router. Its prefix comes after that of this router. Arguments: see `App.include_router`."""
        check_router("include_router", router)
        if self is router or self in router.inside():
            raise ConfigurationError("router.include_router: a router cannot include itself, not even through another router.")
        self._check_open("include_router")
        self._routers.append((router, scope_of("include_router", prefix, middleware, defaults)))

    @property
    def listeners(self) -> Sequence[HandlerDeclaration]:
        """The declarations of this router itself, in order, without those of other routers."""
        return self._listeners

    @property
    def publishers(self) -> Sequence[Publisher]:
        """The publishers of this router itself, in order, without a prefix."""
        return self._publishers

    def included(self, outer: Scope, running: Callable[[], PutsMessages]) -> "Iterator[tuple[Router, Scope]]":
        """Record that an application has included this router. Yield this router and each router inside it, with its scope."""
        scope = self._own.inside(outer)
        self._places.append((scope, running))
        yield self, scope
        for router, added in self._routers:
            yield from router.included(added.inside(scope), running)

    def inside(self) -> "Iterator[Router]":
        """Yield the routers that this router includes, and those inside them."""
        for router, _ in self._routers:
            yield router
            yield from router.inside()

    def _check_open(self, call: str) -> None:
        if self._places:
            raise ConfigurationError(
                f"router.{call}: an application has included this router already, and does not see later declarations. "
                "Call app.include_router(router) after the last declaration."
            )

    def _run(self) -> PutsMessages:
        if len(self._places) != 1:
            problem = "no application includes it" if not self._places else f"it is included {len(self._places)} times"
            raise ConfigurationError(
                f"This publisher belongs to a router, and {problem}, so its queue is not known. Use app.publisher(...)."
            )
        ((scope, running),) = self._places
        return _Prefixed(scope, running())


class _Prefixed:
    """Puts messages on queues, with the prefix and the codec of a router."""

    def __init__(self, scope: Scope, puts: PutsMessages) -> None:
        self._scope: Final = scope
        self._puts: Final = puts

    def put(self, queue: str, payload: Any, **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, Put]:
        """Put a message, like `App.put`."""
        return self._puts.put(self._scope.prefix + queue, payload, **with_codec(keywords, self._scope.codec))

    def put_many(self, queue: str, payloads: Iterable[Any], **keywords: Unpack[PutKeywords]) -> Coroutine[Any, Any, list[Put]]:
        """Put the messages, like `App.put_many`."""
        return self._puts.put_many(self._scope.prefix + queue, payloads, **with_codec(keywords, self._scope.codec))


def check_router(call: str, router: object) -> None:
    """Raise `ConfigurationError` if the object is not a router."""
    if not isinstance(router, Router):
        shown = router.__qualname__ if isinstance(router, type) else repr(router)
        raise ConfigurationError(f"{call}({shown}): it takes a Router: router = Router(prefix='ORDERS.').")


def scope_of(
    call: str, prefix: str, middleware: Sequence[Any], defaults: ListenerKeywords, codec: Codec | str | None = None
) -> Scope:
    """Return the scope for these arguments of a call. Raises `ConfigurationError` for arguments that cannot be used."""
    if not isinstance(prefix, str):
        raise ConfigurationError(f"{call}(prefix={prefix!r}): the prefix is a text, for example 'ORDERS.'.")
    options_of(f"The defaults of {call}", defaults)
    return Scope(prefix=prefix, middleware=tuple(layers_of(call, middleware)), codec=codec_of(codec), defaults=defaults)


def layers_of(call: str, middleware: Sequence[Any]) -> Sequence[Any]:
    """Return the middleware. A text is the name of a plugin. Raises `ConfigurationError` for any other object."""
    mistakes.check_sequence(call, "middleware", middleware)
    layers = named(Group.MIDDLEWARE, middleware)
    mistakes.check_layers(layers)
    # `hasattr`, because a layer need not have `wants`. A layer that has it is also a hook.
    mistakes.check_hooks(layer for layer in layers if hasattr(layer, "wants"))
    return layers


def options_of(place: str, options: ListenerKeywords, defaults: ListenerKeywords = _NO_DEFAULTS) -> ListenerOptions:
    """Return the options of a listener. Raises `ConfigurationError`, with the place of the declaration, for a wrong option."""
    try:
        return ListenerOptions(**_merged(defaults, options))
    except (TypeError, ValueError, ConfigurationError) as error:
        unknown = isinstance(error, TypeError)  # a record raises TypeError only for an unknown keyword
        accepted = f" The options are {', '.join(ListenerOptions.__struct_fields__)}." if unknown else ""
        raise ConfigurationError(f"{place}: {str(error).rstrip('.')}.{accepted}") from error


def chosen_target(call: str, queue: str, wanted: TopicSubscription) -> TopicSubscription | None:
    """Return the subscription, or None for a queue. Raises `ConfigurationError` if the arguments contradict each other."""
    mistakes.check_text(call, "durable", wanted.durable)
    mistakes.check_switch(call, "character_wildcards", wanted.character_wildcards)
    of_topics = "durable" if wanted.durable else "character_wildcards" if wanted.character_wildcards else ""
    mistakes.check_target(call, queue, wanted.topic, of_topics=of_topics)
    mistakes.check_selector(call, wanted.selector)
    return wanted if wanted.topic else None


def declaring(
    add: Callable[[HandlerDeclaration], None],
    queue: str,
    wanted: TopicSubscription,
    where: Where | None,
    codec: Codec | str | None,
    name: str,
    options: ListenerKeywords,
) -> Callable[[F], F]:
    """Check the arguments of a call of `listener`. Return a decorator that adds the declaration of its function."""
    chosen, own_codec = chosen_target("listener", queue, wanted), codec_of(codec)
    mistakes.check_text("listener", "name", name)

    def declare(function: F) -> F:
        add(HandlerDeclaration(function, queue, chosen, wanted.selector, where, own_codec, name, options))
        return function

    return declare


def codec_of(codec: Codec | str | None) -> Codec | None:
    """Return the codec. A text is the name of a plugin. Raises `PluginError`, with the names of the installed codecs."""
    if not isinstance(codec, str):
        if codec is not None:
            mistakes.check_codec(codec)
        return codec
    found: Codec = named(Group.CODECS, (codec,))[0]
    return found


def _merged(outer: ListenerKeywords, inner: ListenerKeywords) -> ListenerKeywords:
    merged: Mapping[str, Any] = {**outer, **inner}
    # cast: the keywords come from typed dictionaries, and there is no type for the union of two such dictionaries.
    return cast("ListenerKeywords", merged)
