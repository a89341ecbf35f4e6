"""Values as TOML, of which Python's library reads but writes nothing.

What lives here: that one form. What must never live here: what the values mean. Called by:
`configuration`, `raftbatch models check`. Total for what `tomllib` returns. Deterministic.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

_BARE = re.compile("[A-Za-z0-9_-]+")


def document(values: Mapping[str, object]) -> str:
    """Return a whole document: the values of each table first, then the tables within it."""
    return "\n".join(_table((), values)).strip() + "\n"


def value(given: object) -> str:
    """Return one value, on one line.

    Raises:
        TypeError: TOML has no such thing.
    """
    match given:
        case bool():
            return "true" if given else "false"
        case str():
            # JSON's escapes are TOML's, but for DEL.
            return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")
        case int():
            return str(given)
        case float():
            if math.isinf(given) or math.isnan(given):
                return repr(given)
            return repr(given) if "." in repr(given) or "e" in repr(given) else f"{given}.0"
        case list() | tuple():
            return f"[{', '.join(map(value, given))}]"
        case Mapping():
            inner = [f"{_key(key)} = {value(each)}" for key, each in given.items()]
            return f"{{ {', '.join(inner)} }}" if inner else "{}"
    if hasattr(given, "isoformat"):  # a date, a time, or both
        return str(given.isoformat())
    raise TypeError(f"TOML has no {type(given).__name__}")


def _table(path: tuple[str, ...], values: Mapping[str, object]) -> Iterator[str]:
    plain = {key: each for key, each in values.items() if not isinstance(each, Mapping)}
    tables = {key: each for key, each in values.items() if isinstance(each, Mapping)}
    if path and (plain or not tables):
        yield ""
        yield f"[{'.'.join(map(_key, path))}]"
    for key, each in plain.items():
        yield f"{_key(key)} = {value(each)}"
    for key, table in tables.items():
        yield from _table((*path, key), table)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else value(key)
