"""Putting known bugs back on purpose, to show that the checkers find them.

A mutant is the product with one piece of source text replaced while it is
imported; nothing on disk changes. Each records what kills it: a seed of a
suite, or a test. `make test` replays that; `make mutants` searches anew. A
mutant whose text is no longer in the product is an error: it must be renewed.

What lives here: the mechanism. What must never live here: an import of the
product, which would be there before the mutant is. Called by: `chaos.__main__`.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug.

    Attributes:
        name: short, unique.
        module: where it goes.
        old: source text that occurs there exactly once.
        new: what replaces it.
        killer: the seed that finds it, or the id of a test that does.
    """

    name: str
    module: str
    old: str
    new: str
    killer: int | str


class StaleMutant(Exception):
    """The text to replace is not in the module exactly once."""


def install(mutant: Mutant) -> None:
    """Let the mutant's module be imported with its bug, beside those it has already.

    Raises:
        StaleMutant: at once where the module was imported already, else at its
            import where the text is not there.
    """
    if mutant.module in sys.modules:
        raise StaleMutant(f"{mutant.module} is imported already")
    for finder in sys.meta_path:
        if isinstance(finder, _Finder) and finder.module == mutant.module:
            finder.mutants.append(mutant)
            return
    sys.meta_path.insert(0, _Finder(mutant))


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module, with another loader."""

    def __init__(self, mutant: Mutant) -> None:
        self.module = mutant.module
        self.mutants = [mutant]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the usual place, and our loader for it."""
        if fullname != self.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin, self.mutants)
        return spec


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the changed text, past any cached bytecode."""

    def __init__(self, fullname: str, path: str, mutants: Sequence[Mutant]) -> None:
        super().__init__(fullname, path)
        self._mutants = mutants

    def get_code(self, fullname: str) -> CodeType:
        """Return the mutants' code."""
        source = self.get_data(self.path).decode("utf-8")
        for mutant in self._mutants:
            found = source.count(mutant.old)
            if found != 1:
                raise StaleMutant(f"{mutant.name}: its text is {found} times in {mutant.module}")
            source = source.replace(mutant.old, mutant.new)
        return compile(source, self.path, "exec")
