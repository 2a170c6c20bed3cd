"""Application configuration: defaults < YAML file < environment."""
from __future__ import annotations

import os
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import yaml


@dataclass
class Database:
    url: str = "sqlite:///app.db"
    pool_size: int = 5


@dataclass
class Server:
    host: str = "127.0.0.1"
    port: int = 8080
    debug: bool = False


@dataclass
class Config:
    database: Database = field(default_factory=Database)
    server: Server = field(default_factory=Server)


def _coerce(value: Any, typ: type) -> Any:
    if typ is bool and isinstance(value, str):
        return value.lower() in ("1", "true", "yes", "on")
    return typ(value)


def _fill(obj, data: dict, prefix: str):
    hints = get_type_hints(type(obj))
    unknown = set(data) - {f.name for f in fields(obj)}
    if unknown:
        raise ValueError(f"unknown settings under {prefix}: {sorted(unknown)}")
    for f in fields(obj):
        current = getattr(obj, f.name)
        env_name = f"{prefix}_{f.name}".upper()
        if is_dataclass(current):
            _fill(current, data.get(f.name) or {}, env_name)
        elif env_name in os.environ:
            setattr(obj, f.name, _coerce(os.environ[env_name], hints[f.name]))
        elif f.name in data:
            setattr(obj, f.name, _coerce(data[f.name], hints[f.name]))


def load(path="config.yaml", prefix="APP") -> Config:
    data = {}
    if Path(path).exists():
        data = yaml.safe_load(Path(path).read_text()) or {}
    cfg = Config()
    _fill(cfg, data, prefix)
    return cfg


if __name__ == "__main__":
    print(load())
