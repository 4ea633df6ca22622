"""Damaged models: random changes of JSON, of bytes and of text."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

ODD_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2, 0.5, 3_000_000_000, 2**62, 2**70, -(2**63), 1e300, 1e39),
    *(float("nan"), float("inf"), -float("inf"), "", "x", "-1", "1e400", "NaN", [], {}, [[]]),
    *([1, "x"], {"a": 1}, [float("nan")], [-1], "[1E0,2E0]", "null", "é" * 3),
)
ODD_WORDS = (
    *("nan", "inf", "-inf", "-1", "0", "1", "99999", "3000000000", "9" * 30, "1e308", "1e-320"),
    *("", "x", "0.5", "-0", "0x10", "1_0", "tree", "=", "Tree=1", "é"),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in some JSON."""
    yield path
    if isinstance(value, (dict, list)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, own in items:
            yield from places(own, (*path, key))


def damaged_json(model: Any, rng: np.random.Generator) -> Any:
    """A copy of some JSON with one to three values changed, dropped or exchanged."""
    model = copy.deepcopy(model)
    for _ in range(int(rng.integers(1, 4))):
        known = [path for path in places(model) if path]
        # Half of the changes are to values near the root, which are few.
        short = [path for path in known if len(path) < 6]
        chosen = short if rng.random() < 0.5 else known
        path = chosen[int(rng.integers(len(chosen)))]
        owner = model
        for key in path[:-1]:
            owner = owner[key]
        _damage(owner, path[-1], rng)
    return model


def _damage(owner: Any, key: Any, rng: np.random.Generator) -> None:
    action, value = int(rng.integers(6)), owner[key]
    if action == 0:
        del owner[key]
    elif action == 1 and isinstance(value, list) and value:
        owner[key] = value[: int(rng.integers(len(value)))]
    elif action == 2 and isinstance(value, list):
        owner[key] = value + value[:2]
    elif action == 3 and type(value) in (int, float):
        owner[key] = value + int(rng.integers(-3, 4))
    elif action == 4 and isinstance(value, list) and len(value) > 1:
        i, j = (int(k) for k in rng.integers(len(value), size=2))
        value[i], value[j] = value[j], value[i]
    else:
        owner[key] = copy.deepcopy(ODD_VALUES[int(rng.integers(len(ODD_VALUES)))])


def damaged_bytes(content: bytes, rng: np.random.Generator) -> bytes:
    """A copy of a file with bytes changed, dropped, repeated or cut off."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 4))):
        at, action = int(rng.integers(len(data))), int(rng.integers(5))
        if action == 0:
            data[at] = int(rng.integers(256))
        elif action == 1:
            data[at] ^= 1 << int(rng.integers(8))
        elif action == 2:
            del data[at : at + int(rng.integers(1, 9))]
        elif action == 3:
            data[at:at] = data[at : at + int(rng.integers(1, 40))]
        elif len(data) > 2:
            del data[max(at, 2) :]
    return bytes(data)


def damaged_text(text: str, rng: np.random.Generator) -> str:
    """A copy of a model text with words changed, or lines dropped, repeated or exchanged."""
    lines = text.split("\n")
    for _ in range(int(rng.integers(1, 4))):
        at, action = int(rng.integers(len(lines))), int(rng.integers(6))
        key, equals, value = lines[at].partition("=")
        words = value.split(" ")
        if action == 0 and len(lines) > 1:
            del lines[at]
        elif action == 1:
            lines.insert(at, lines[int(rng.integers(len(lines)))])
        elif action == 2:
            lines = lines[: max(at, 1)]
        elif equals:
            place = int(rng.integers(len(words)))
            if action == 3:
                del words[place]
            else:
                words[place] = ODD_WORDS[int(rng.integers(len(ODD_WORDS)))]
            lines[at] = f"{key}={' '.join(words)}"
    return "\n".join(lines)


def as_json(model: Any) -> bytes:
    """The bytes of a model in JSON, with NaN and infinities as XGBoost writes them."""
    return json.dumps(model).encode()
