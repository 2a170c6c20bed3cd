from __future__ import annotations

import asyncio
import inspect
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable


@dataclass(frozen=True, kw_only=True)
class Event:
    at: datetime = field(default_factory=lambda: datetime.now(timezone.utc))


@dataclass(frozen=True, kw_only=True)
class UserRegistered(Event):
    user_id: int
    email: str


@dataclass(frozen=True, kw_only=True)
class OrderPlaced(Event):
    order_id: str
    total: float


E = TypeVar("E", bound=Event)
E_contra = TypeVar("E_contra", bound=Event, contravariant=True)


@runtime_checkable
class Handler(Protocol, Generic[E_contra]):
    def __call__(self, event: E_contra, /) -> None | Awaitable[None]: ...


class EventBus:
    def __init__(self) -> None:
        self._handlers: defaultdict[type[Event], list[Handler[Any]]] = defaultdict(list)
        self.errors: list[tuple[Event, BaseException]] = []

    def on(self, kind: type[E]) -> Callable[[Handler[E]], Handler[E]]:
        def register(handler: Handler[E]) -> Handler[E]:
            self._handlers[kind].append(handler)
            return handler
        return register

    async def publish(self, event: Event) -> int:
        count = 0
        for cls in type(event).__mro__:
            for handler in self._handlers.get(cls, ()):
                count += 1
                try:
                    result = handler(event)
                    if inspect.isawaitable(result):
                        await result
                except Exception as exc:
                    self.errors.append((event, exc))
        return count


bus = EventBus()


@bus.on(UserRegistered)
async def send_welcome(event: UserRegistered) -> None:
    await asyncio.sleep(0)
    print(f"welcome mail to {event.email}")


@bus.on(Event)
def audit(event: Event) -> None:
    print(f"[audit] {type(event).__name__} {event.at:%X}")


async def main() -> None:
    await bus.publish(UserRegistered(user_id=1, email="new@example.com"))
    await bus.publish(OrderPlaced(order_id="A-17", total=99.5))
    print("errors:", bus.errors)


if __name__ == "__main__":
    asyncio.run(main())
