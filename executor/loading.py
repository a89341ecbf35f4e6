"""Finds a model's class: in a file, in the folder of a package, or in an installed module.

What lives here: importing the operator's own code, and saying clearly why that failed.
What must never live here: running it. Called by: `executor.runtime`, in a child process.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from executor.frames import Load
from raftbatch.world import Files, join

_MODULE = "raftbatch_model"
_FILE_BYTES_MAX = 64 << 20
_TEXT_LENGTH_MAX = 4096  # of what a model says: nobody reads more
_EXTRA = "pip install 'raftbatch[executor]'"


class CannotLoad(Exception):
    """A model cannot be loaded; the message says which, and why, in one line."""


def load_class(files: Files, load: Load) -> type[Any]:
    """Return the class of a model, its module imported; the only one, where none is named.

    Raises:
        CannotLoad: there is no such file or class, or importing it failed.
    """
    where = load.file or load.module
    try:
        module = _imported(files, load)
    except CannotLoad:
        raise
    except ModuleNotFoundError as error:
        if error.name in ("torch", "numpy"):
            raise CannotLoad(
                f"{load.name}: {where} needs {error.name}, which is not installed: {_EXTRA}"
            ) from None
        raise CannotLoad(f"{load.name}: {where} does not import: {error}") from error
    except BaseException as error:
        raise CannotLoad(f"{load.name}: {where} does not import: {said(error)}") from error
    try:
        classes = {
            name: value
            for name, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__
        }
        models = [name for name, value in classes.items() if hasattr(value, "predict")]
    except BaseException as error:
        raise CannotLoad(
            f"{load.name}: a class of {where} does not let itself be looked at: {said(error)}"
        ) from error
    if not load.class_name:
        if len(models) != 1:
            if not models:
                raise CannotLoad(f"{load.name}: {where} has no class with `predict`")
            several = f"several classes with `predict`: name one of {', '.join(models)}"
            raise CannotLoad(f"{load.name}: {where} has {several}")
        return classes[models[0]]
    found = getattr(module, load.class_name, None)
    if not isinstance(found, type):
        there = f"only {', '.join(classes)}" if classes else "and no other"
        raise CannotLoad(f"{load.name}: {where} has no class {load.class_name!r}, {there}")
    return found


def attribute(load: Load, found: type[Any], key: str, default: object) -> Any:
    """Return what a model's class says of itself; the default where it says nothing.

    Raises:
        CannotLoad: asking it raises.
    """
    try:
        return getattr(found, key, default)
    except BaseException as error:
        raise CannotLoad(f"{load.name}: asking for its {key} failed: {said(error)}") from error


def said(error: BaseException) -> str:
    """Return an error as one line. Total."""
    first = plain(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def plain(value: object) -> str:
    """Return what a model says as text that can travel, whatever it is. Total."""
    try:
        text = str(value)
    except BaseException:  # noqa: BLE001 - a model's own class may raise anything
        return f"a {type(value).__name__} that has no text"
    return text[:_TEXT_LENGTH_MAX].replace("\0", "").encode("utf-8", "replace").decode()


def content_hash(files: Files, load: Load) -> bytes:
    """Return a hash of the model's file; of its name alone where it is a package."""
    found = sha256(f"{load.file}\0{load.module}\0{load.class_name}".encode())
    if load.file.endswith(".py"):
        file = files.open(load.file, "read")
        try:
            found.update(file.read_at(0, _FILE_BYTES_MAX))
        finally:
            file.close()
    return found.digest()


def _imported(files: Files, load: Load) -> Any:
    if load.module:
        return importlib.import_module(load.module)
    path = PurePosixPath(load.file)
    place = load.file if path.suffix == ".py" else join(load.file, "__init__.py")
    if not files.exists(place):
        raise CannotLoad(f"{load.name}: there is no {place}")
    # What lies beside it can be imported by it, as if it were run.
    sys.path.insert(0, str(path.parent))
    inside = None if path.suffix == ".py" else [load.file]
    spec = importlib.util.spec_from_file_location(_MODULE, place, submodule_search_locations=inside)
    if spec is None or spec.loader is None:
        raise CannotLoad(f"{load.name}: {place} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module
    spec.loader.exec_module(module)
    return module
