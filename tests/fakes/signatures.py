"""Compares signatures of a stand-in with the real ones, also of functions compiled by Cython.

A parameter of a stand-in must have the real name and position, unless it is positional-only or
keyword-only (``/`` and ``*``).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from inspect import Parameter, Signature
from types import SimpleNamespace
from typing import Any

# Attributes that every class has.
_OF_ANY_CLASS = {*dir(type("Empty", (), {})), "__annotations__", "__getattr__"}
_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def signature_of(function: Any) -> Signature | None:
    """The parameters without ``self``, or None if they are unknown."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return _written_signature(function)
    parameters = list(found.parameters.values())
    if parameters and parameters[0].name == "self":
        parameters = parameters[1:]
    kinds = {parameter.kind for parameter in parameters}
    if kinds == {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}:  # unknown
        return _written_signature(function)
    return Signature(parameters)


def _written_signature(function: Any) -> Signature | None:
    """The signature in the first line of the docstring, as in Cython and CuPy's ufuncs."""
    first = (getattr(function, "__doc__", None) or "").partition("\n")[0]
    match = re.match(r"[\w.]+\((?P<parameters>.*)\)(?: -> .*)?$", first.strip())
    if match is None:
        return None
    parameters: list[Parameter] = []
    kind: Any = Parameter.POSITIONAL_OR_KEYWORD
    for text in _split(match["parameters"]):
        before, _, default = text.partition("=")
        stars, name = re.findall(r"\\?(\**)\s*(\w*)\s*$", before)[0]
        if before == "/":
            parameters = [one.replace(kind=Parameter.POSITIONAL_ONLY) for one in parameters]
        elif stars and not name:
            kind = Parameter.KEYWORD_ONLY
        elif stars:
            many = Parameter.VAR_POSITIONAL if stars == "*" else Parameter.VAR_KEYWORD
            parameters.append(Parameter(name, many))
            kind = Parameter.KEYWORD_ONLY
        elif name != "self":
            parameters.append(Parameter(name, kind, default=default or Parameter.empty))
    return Signature(parameters, __validate_parameters__=False)


def _split(text: str) -> list[str]:
    """Split at commas outside of parentheses, and remove square brackets."""
    parts = re.split(r",(?![^(]*\))", text.replace("[", "").replace("]", ""))
    return [part.strip() for part in parts if part.strip()]


def misfits(stand_in: Signature, real: Signature) -> Iterator[str]:
    """Arguments that the stand-in accepts and the real one does not, in words."""
    takes_any_name = any(one.kind is Parameter.VAR_KEYWORD for one in real.parameters.values())
    takes_any_place = any(one.kind is Parameter.VAR_POSITIONAL for one in real.parameters.values())
    names = {one.name for one in real.parameters.values() if one.kind in _BY_NAME}
    places = [one.name for one in real.parameters.values() if one.kind in _POSITIONAL]
    for place, parameter in enumerate(stand_in.parameters.values()):
        name = parameter.name
        if parameter.kind in _BY_NAME and name not in names and not takes_any_name:
            yield f"takes {name!r}, the real one {real}"
        elif parameter.kind not in _POSITIONAL or takes_any_place:
            continue
        elif place >= len(places) or (parameter.kind in _BY_NAME and name != places[place]):
            yield f"takes {name!r} as argument {place} too, the real one {real}"


def missing(where: str, names: Iterable[str], real: Any) -> Iterator[str]:
    """Names that the real module or class does not have."""
    absent = (name for name in names if not hasattr(real, name))
    yield from (f"{where}.{name}: there is no such name" for name in absent)


def compare_names(
    where: str,
    names: Mapping[str, Any],
    real: Any,
    unknown: list[str],
    private: frozenset[str] = frozenset(),
) -> Iterator[str]:
    """Differences in a module of the stand-in and in its members.

    Names without known parameters go to ``unknown``; those in ``private`` are not compared. A
    ``partial`` is a function of another library, of which only the name is compared.
    """
    yield from missing(where, names, real)
    for name, ours in sorted(names.items()):
        full, theirs = f"{where}.{name}", getattr(real, name, None)
        if ours is theirs or theirs is None or name.startswith("__"):
            continue
        if isinstance(ours, SimpleNamespace):
            yield from compare_names(full, vars(ours), theirs, unknown, private)
        elif isinstance(ours, type):
            yield from compare_class(full, ours, theirs, unknown, private)
        elif callable(ours) and callable(theirs):
            if not isinstance(ours, partial):
                yield from compare_function(full, ours, theirs, unknown)
        elif ours != theirs:
            yield f"{full}: {ours!r}, the real one is {theirs!r}"


def compare_function(name: str, stand_in: Any, real: Any, unknown: list[str]) -> Iterator[str]:
    """Differences of a function; its name goes to `unknown` if the parameters are unknown."""
    ours, theirs = signature_of(stand_in), signature_of(real)
    if ours is None or theirs is None:
        unknown.append(name)
        return
    yield from (f"{name}: {misfit}" for misfit in misfits(ours, theirs))


def compare_class(
    name: str, stand_in: type, real: Any, unknown: list[str], private: frozenset[str]
) -> Iterator[str]:
    """Differences of constructor and attributes; names in `private` are not compared."""
    if not isinstance(real, type):
        yield f"{name}: the real one is no class"
        return
    constructor = signature_of(stand_in)
    if constructor is not None and "machine" not in constructor.parameters:
        yield from compare_function(name, stand_in, real, unknown)
    names = sorted(_own_names(stand_in) - private)
    yield from missing(name, names, real)
    for attribute in names:
        ours, theirs = getattr(stand_in, attribute), getattr(real, attribute, None)
        comparable = attribute == "__call__" or not attribute.startswith("__")  # no operators
        if comparable and theirs is not None and inspect.isfunction(ours):
            yield from compare_function(f"{name}.{attribute}", ours, theirs, unknown)


def _own_names(stand_in: type) -> set[str]:
    """Public attributes, with those of base classes."""
    own = {name for one in stand_in.__mro__ if one.__module__ != "builtins" for name in vars(one)}
    return {name for name in own - _OF_ANY_CLASS if not re.match("_[^_]", name)}
