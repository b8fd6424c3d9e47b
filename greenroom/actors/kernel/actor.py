"""The base class of actors: a state with synchronous handlers.

An actor never sees its mailbox or its tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from greenroom.actors.kernel.message import Changed, Command, Event, Reply

if TYPE_CHECKING:
    from greenroom.actors.kernel.timers import ActorTimers

Role = TypeVar("Role")
Self_ = TypeVar("Self_")

Handler = Callable[[Any, Any], Any]


def handles(
    command_type: type[Command[Any, Reply]],
) -> Callable[
    [Callable[[Self_, Any], Reply | Changed[Reply]]],
    Callable[[Self_, Any], Reply | Changed[Reply]],
]:
    """Mark a method of an `Actor` as the handler of one command type.

    The method is synchronous: it runs to completion, nothing interleaves. It returns the reply of
    a pure read, or `Changed(reply, *events)`; it raises `Refused` before it has changed anything.
    That its parameter is annotated with the same command type is checked when the class is made.
    """

    def mark(
        method: Callable[[Self_, Any], Reply | Changed[Reply]],
    ) -> Callable[[Self_, Any], Reply | Changed[Reply]]:
        method.handled_command = command_type  # type: ignore[attr-defined]
        return method

    return mark


class Actor(Generic[Role]):
    """Base of all actors.

    A subclass keeps its state in attributes, changes it only in `apply`, and decides in handlers.
    When a handler or `apply` raises anything but `Refused`, the kernel throws the whole object
    away and loads a new one from the database.
    """

    kind: ClassVar[str] = "actor"
    handlers: ClassVar[Mapping[type[Command[Any, Any]], Handler]] = {}
    timers: ActorTimers
    """Commands to oneself, later; set by the kernel before `on_start`."""
    put_off: tuple[Callable[[], None], ...] = ()
    """Set by `apply`: called once the events of this turn are durable, and never if they are lost.
    They may not wait."""
    has_ended = False
    """True once it takes no more commands. Its last turns may still have follow-ups."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Collect the class's handlers and check their annotations."""
        super().__init_subclass__(**kwargs)
        found = dict(cls.handlers)
        for name, method in vars(cls).items():
            command_type = getattr(method, "handled_command", None)
            if command_type is not None:
                _check_annotation(cls, name, method, command_type)
                found[command_type] = method
        cls.handlers = found

    @property
    def shard(self) -> int | None:
        """Return the shard that the actor lives in, None if none of this node's is known."""
        return None

    def apply(self, event: Event) -> None:
        """Change the state by one event. It may not refuse, and must not fail."""
        raise NotImplementedError(f"{type(self).__name__} does not apply {type(event).__name__}")

    def on_start(self) -> None:
        """Run when the actor has come up (loaded, adopted or restarted), before any command."""

    @classmethod
    def start_together(cls, actors: Collection[Any]) -> None:
        """Do what `on_start` does, for several that have come to memory at the same time."""
        for actor in actors:
            actor.on_start()

    def on_refused(self) -> None:
        """Undo what the handler of this turn did besides its events, which are not applied.

        Called when the database is away.
        """

    def on_stop(self) -> None:
        """Run when the actor leaves memory: passivated, stopped, or thrown away by a crash.

        If its shard has gone to another node, that is up to a moment later; see `has_ended`.
        """


def _check_annotation(
    cls: type, name: str, method: Handler, command_type: type[Command[Any, Any]]
) -> None:
    """Raise `TypeError` for a handler whose parameter has another type than its decorator."""
    annotations = [v for k, v in method.__annotations__.items() if k != "return"]
    said = annotations[0] if annotations else None
    said_name = said.rpartition(".")[2] if isinstance(said, str) else getattr(said, "__name__", "")
    if said_name != command_type.__name__:
        raise TypeError(
            f"{cls.__name__}.{name} handles {command_type.__name__} but is annotated {said!r}"
        )
