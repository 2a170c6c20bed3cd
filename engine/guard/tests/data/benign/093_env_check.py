"""Compare .env with .env.example and complain about missing or empty settings."""
import sys

from dotenv import dotenv_values

OPTIONAL = {"SENTRY_DSN", "SMTP_PASSWORD"}


def mask(value):
    if len(value) <= 6:
        return "*" * len(value)
    return value[:2] + "*" * (len(value) - 4) + value[-2:]


def main():
    example = dotenv_values(".env.example")
    actual = dotenv_values(".env")
    if not example:
        sys.exit(".env.example not found or empty")

    missing = [k for k in example if k not in actual and k not in OPTIONAL]
    empty = [k for k, v in actual.items() if not v and k in example and k not in OPTIONAL]
    extra = sorted(set(actual) - set(example))
    same = [k for k in example if example[k] and actual.get(k) == example[k] and "KEY" in k]

    for key in missing:
        print(f"MISSING  {key}")
    for key in empty:
        print(f"EMPTY    {key}")
    for key in same:
        print(f"DEFAULT  {key} still has the example value")
    for key in extra:
        print(f"unknown  {key}={mask(actual[key] or '')}")
    return 1 if missing or empty or same else 0


if __name__ == "__main__":
    sys.exit(main())
