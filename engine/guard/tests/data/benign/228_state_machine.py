from __future__ import annotations

import enum
import logging
from collections import defaultdict
from typing import Callable

log = logging.getLogger(__name__)


class InvalidTransition(Exception):
    pass


class StateMachine:
    transitions: dict[tuple[enum.Enum, str], enum.Enum] = {}

    def __init__(self, initial):
        self.state = initial
        self.history = [initial]
        self._hooks: dict[enum.Enum, list[Callable]] = defaultdict(list)
        for name in dir(type(self)):
            target = getattr(getattr(type(self), name), "_on_enter", None)
            if target is not None:
                self._hooks[target].append(getattr(self, name))

    def trigger(self, event, **kwargs):
        try:
            target = self.transitions[self.state, event]
        except KeyError:
            raise InvalidTransition(f"{event!r} is not possible in {self.state.name}") from None
        log.debug("%s --%s--> %s", self.state.name, event, target.name)
        self.state = target
        self.history.append(target)
        for hook in self._hooks[target]:
            hook(**kwargs)

    def can(self, event):
        return (self.state, event) in self.transitions


def on_enter(state):
    def deco(fn):
        fn._on_enter = state
        return fn
    return deco


class S(enum.Enum):
    NEW = 1
    PAID = 2
    SHIPPED = 3
    DELIVERED = 4
    CANCELLED = 5


class Order(StateMachine):
    transitions = {
        (S.NEW, "pay"): S.PAID,
        (S.NEW, "cancel"): S.CANCELLED,
        (S.PAID, "ship"): S.SHIPPED,
        (S.PAID, "cancel"): S.CANCELLED,
        (S.SHIPPED, "deliver"): S.DELIVERED,
    }

    def __init__(self):
        super().__init__(S.NEW)

    @on_enter(S.SHIPPED)
    def notify(self, tracking=None):
        print(f"shipped, tracking number {tracking}")


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG)
    order = Order()
    order.trigger("pay")
    order.trigger("ship", tracking="XY123")
    try:
        order.trigger("cancel")
    except InvalidTransition as e:
        print(e)
