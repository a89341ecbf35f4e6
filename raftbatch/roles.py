"""Roles: what the holder of a certificate may do, where the ports speak TLS.

A certificate says its roles itself, each as a URI among its subject's alternative
names (`raftbatch://role/executor`), or the nodes' configuration names it, by its
common name, under `[tls.roles]`. One that has none may do nothing, but ask who the
nodes are. What lives here: the roles, and who has which. What must never live here:
what each allows (`coordinator.rpc.rights`, `coordinator.raft.door`). Called by: the
configuration, the ports. Total. Deterministic. Source: docs/adr/0008-roles.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

URI = "raftbatch://role/"
"""Begins the URI of each role."""

ANYBODY = "*"
"""Stands for every name, in a list of those that have a role."""


class Role(Enum):
    """What a certificate is for.

    `PEER`: a coordinator. `EXECUTOR`: the executor that the certificate names.
    `CLIENT`: requests. `OPERATOR`: the cluster itself, and what clients do.
    """

    PEER = "peer"
    EXECUTOR = "executor"
    CLIENT = "client"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Roles:
    """Who has which role by name alone, as the configuration says.

    Attributes:
        names: common names of certificates; `ANYBODY` among them: all of the authority's.
    """

    names: Mapping[Role, frozenset[str]] = field(default_factory=dict)

    def of(self, name: str | None, uris: Iterable[str]) -> frozenset[Role]:
        """Return the roles of a certificate.

        Args:
            name: its common name; None: it has none, or several.
            uris: among its alternative names.
        """
        said = {uri.removeprefix(URI) for uri in uris if uri.startswith(URI)}
        return frozenset(
            role
            for role in Role
            if role.value in said
            or self.is_anybodys(role)
            or (name is not None and name in self._named(role))
        )

    def is_anybodys(self, role: Role) -> bool:
        """Return whether every certificate of the authority has a role."""
        return ANYBODY in self._named(role)

    def _named(self, role: Role) -> frozenset[str]:
        return self.names.get(role, frozenset())


NOBODY = Roles()
"""Nobody has a role by name alone."""


def lacking(name: str | None, has: Iterable[Role], needed: Iterable[Role], what: str) -> str:
    """Say to a person that a certificate lacks a role, and what to do.

    Args:
        name: the certificate's common name.
        has: its roles.
        needed: those of which one is needed.
        what: it is needed for.
    """
    roles = sorted(each.value for each in has)
    said = f"the role {' and '.join(roles)}" if roles else "no role"
    wanted = " or ".join(each.value for each in needed)
    first = next(iter(needed)).value
    return (
        f"the certificate of {name or 'nobody'} has {said}, and {what} needs {wanted}: issue it "
        f"with the URI {URI}{first}, or name it under tls.roles.{first} in the nodes' configuration"
    )
