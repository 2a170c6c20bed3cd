"""Minimal plugin system based on importlib."""
from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from types import ModuleType
from typing import Callable

logger = logging.getLogger(__name__)


class PluginRegistry:
    def __init__(self) -> None:
        self.commands: dict[str, Callable] = {}

    def command(self, name: str):
        def wrap(fn):
            if name in self.commands:
                raise ValueError(f"command {name!r} already registered")
            self.commands[name] = fn
            return fn
        return wrap


def load_module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"plugins.{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_plugins(folder: Path, registry: PluginRegistry) -> int:
    count = 0
    for path in sorted(folder.glob("*.py")):
        if path.name.startswith("_"):
            continue
        try:
            module = load_module(path)
            register = getattr(module, "register", None)
            if register is None:
                logger.warning("%s has no register(), skipped", path.name)
                continue
            register(registry)
            count += 1
        except Exception:
            logger.exception("plugin %s failed to load", path.name)
    return count


if __name__ == "__main__":
    import sys

    logging.basicConfig(level=logging.INFO)
    registry = PluginRegistry()
    n = load_plugins(Path("plugins"), registry)
    print(f"loaded {n} plugins: {', '.join(registry.commands)}")
    if len(sys.argv) > 1:
        registry.commands[sys.argv[1]](*sys.argv[2:])
