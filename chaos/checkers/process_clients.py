"""What clients saw, held against what the log tells.

A ticket names the entry that admitted the request; an outcome is the log's, the same for all who
ask; a definite failure has changed nothing; of a call that nobody could answer nothing is known.

What lives here: that. What must never live here: a promise that needs no client
(`process_scheduler`). Called by: `processes`. Deterministic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chaos.checkers.process_logs import Tale
from chaos.checkers.process_values import Finding, Name
from chaos.history import Call
from chaos.models import answer
from raftbatch.kinds import OutcomeKind
from raftbatch.stories import Story

_ASKING = ("submit", "infer")
_KINDS = {
    OutcomeKind.OK: "ok",
    OutcomeKind.FAILED: "failed",
    OutcomeKind.EXPIRED: "expired",
    OutcomeKind.CANCELLED: "cancelled",
}
_FORGETFUL = ("unknown_request", "outcome_forgotten")


class Clients:
    """See the module's docstring.

    Args:
        tale: what the log tells.
        calls: of all clients.
    """

    def __init__(self, tale: Tale, calls: Sequence[Call]) -> None:
        self._tale = tale
        self._stories = tale.named()
        self._calls: dict[Name, list[Call]] = {}
        for call in calls:
            name = (call.began.tenant, call.began.id)
            self._calls.setdefault(name, []).append(call)

    def judge(self) -> Iterator[Finding]:
        """Yield each broken promise, the first of each request."""
        for name, asked in self._calls.items():
            stories = self._stories.get(name) or self._cancelled(name)
            for found in self._of(name, asked, stories):
                yield found
                break
        for name in self._stories:
            if name not in self._calls and self._stories[name][0].is_whole:
                yield Finding("unasked", f"{name[1]} was admitted, and nobody asked for it", name)

    def _cancelled(self, name: Name) -> list[Story]:
        """Return the story of an id that was cancelled before it came, if it was."""
        if all(call.began.op != "cancel" for call in self._calls[name]):
            return []
        return self._tale.stories.find(name[1], name[0])

    def _of(self, name: Name, asked: Sequence[Call], stories: Sequence[Story]) -> Iterator[Finding]:
        told: str | None = None
        for call in asked:
            if call.outcome == "ok" and call.began.op in _ASKING and call.ended is not None:
                yield from self._ticket(name, call, stories)
            if call.outcome == "ok" and call.ended is not None and "outcome" in call.ended.value:
                said = _said(call)
                if told is not None and said != told:
                    yield Finding(
                        "changed-outcome", f"{name[1]} was told {told}, then {said}", name
                    )
                told = said
                yield from self._outcome(name, call, stories)
            if call.outcome == "ok" and call.began.op == "cancel":
                yield from self._cancel(name, call, stories)
            if call.outcome == "fail":
                yield from self._forgotten(name, call, stories)
        yield from self._definite(name, asked, stories)
        yield from self._stray_cancel(name, asked, stories)

    def _ticket(self, name: Name, call: Call, stories: Sequence[Story]) -> Iterator[Finding]:
        """Judge that a ticket names the entry that admitted what was asked for."""
        assert call.ended is not None
        index = call.ended.value.get("index")
        if index is None or (index and index < self._tale.stories.since):
            return
        story = _at(stories, index)
        admitted = [str(each.admitted_index) for each in stories if each.number]
        if story is None and admitted:
            yield Finding(
                "doubled-admission",
                f"{name[1]} got the ticket {index}, and was admitted with {', '.join(admitted)}",
                name,
            )
            return
        if story is None:
            yield Finding(
                "lost-ticket",
                f"{name[1]} got the ticket {index}, and the log has no such admission of it",
                name,
            )
            return
        text = self._tale.texts.get(story.number)
        if story.number and text != call.began.value["text"]:
            yield Finding(
                "foreign-ticket",
                f"{name[1]} got the ticket {index}, which admitted another content: {text}",
                name,
            )

    def _outcome(self, name: Name, call: Call, stories: Sequence[Story]) -> Iterator[Finding]:
        """Judge that an outcome that was told is the log's, and the model's."""
        assert call.ended is not None
        value = call.ended.value
        index = value.get("index", call.began.value.get("index"))
        if index is not None and 0 < index < self._tale.stories.since:
            return
        story = _at(stories, index) if index is not None else next(iter(stories), None)
        given = story.outcome if story is not None else None
        if story is None or given is None:
            yield Finding(
                "false-outcome", f"{name[1]} was told {_said(call)}, and the log gave none", name
            )
            return
        kind = _KINDS[given.kind]
        if kind != value["outcome"] or given.code != value.get("code", given.code):
            yield Finding(
                "false-outcome",
                f"{name[1]} was told {_said(call)}, and the log gave {kind} {given.code}",
                name,
            )
            return
        if kind != "ok":
            return
        result = self._tale.result(story)
        if value["text"] != result or value["ended_index"] != given.index:
            yield Finding(
                "false-outcome",
                f"{name[1]} was told {value['text']!r} of index {value['ended_index']}, "
                f"and the log has {result!r} at {given.index}",
                name,
            )
        elif value["text"] != (right := answer(self._tale.texts.get(story.number, ""))):
            yield Finding(
                "wrong-result", f"{name[1]} got {value['text']!r}, and not {right!r}", name
            )

    def _cancel(self, name: Name, call: Call, stories: Sequence[Story]) -> Iterator[Finding]:
        assert call.ended is not None
        is_cancelled = bool(call.ended.value["cancelled"])
        kinds = [story.outcome.kind for story in stories if story.outcome is not None]
        if not kinds or (is_cancelled and OutcomeKind.CANCELLED not in kinds):
            what = "is cancelled" if is_cancelled else "has an outcome"
            yield Finding(
                "false-outcome",
                f"{name[1]} was said to {what.replace('is', 'be').replace('has', 'have')}, "
                f"and the log gave {', '.join(_KINDS[kind] for kind in kinds) or 'none'}",
                name,
            )

    def _forgotten(self, name: Name, call: Call, stories: Sequence[Story]) -> Iterator[Finding]:
        """Judge that what was said to be unknown is: no run is as long as ids are known."""
        assert call.ended is not None
        slug = call.ended.value.get("slug")
        if slug not in _FORGETFUL or call.began.op != "result":
            return
        story = _at(stories, call.began.value.get("index"))
        if story is not None and story.is_kept:
            yield Finding(
                "lost-ticket", f"{name[1]} was said to be {slug}, and the log has it", name
            )

    def _definite(
        self, name: Name, asked: Sequence[Call], stories: Sequence[Story]
    ) -> Iterator[Finding]:
        """Judge that what failed definitely, whoever asked for it, was never admitted."""
        for story in stories:
            if not story.number or not story.is_whole:
                continue
            text = self._tale.texts.get(story.number)
            same = [
                call
                for call in asked
                if call.began.op in _ASKING and call.began.value["text"] == text
            ]
            if not same:
                yield Finding("unasked", f"{name[1]} was admitted with {text!r}, unasked", name)
            elif all(call.outcome == "fail" and not _expired(call, story) for call in same):
                slugs = {str(call.ended.value["slug"]) for call in same if call.ended is not None}
                yield Finding(
                    "failed-took-effect",
                    f"{name[1]} failed definitely ({', '.join(sorted(slugs))}), and was admitted "
                    f"with index {story.admitted_index}",
                    name,
                )

    def _stray_cancel(
        self, name: Name, asked: Sequence[Call], stories: Sequence[Story]
    ) -> Iterator[Finding]:
        """Judge that what is cancelled was cancelled by somebody, who was not refused."""
        for story in stories:
            if story.outcome is None or story.outcome.kind is not OutcomeKind.CANCELLED:
                continue
            if not any(_may_cancel(call) for call in asked):
                yield Finding(
                    "failed-took-effect",
                    f"{name[1]} is cancelled, and nobody's cancel passed",
                    name,
                )


def _at(stories: Sequence[Story], index: object) -> Story | None:
    """Return the story of a ticket."""
    for story in stories:
        if story.admitted_index == index:
            return story
    return None


def _may_cancel(call: Call) -> bool:
    """Return whether a call may have cancelled its request.

    A client cancels what it ran once it waits no longer, and what it asks for where its wait is
    broken off: then the call has no end. Where a cluster does not heal all calls are.
    """
    match call.began.op:
        case "cancel":
            return call.outcome != "fail"
        case "infer":
            return call.outcome not in ("ok", "fail")
        case "submit":
            return call.outcome == "invoke"
        case _:
            return False


def _expired(call: Call, story: Story) -> bool:
    """Return whether a call was told that its request has expired, and the log says so too."""
    assert call.ended is not None
    return (
        call.began.op == "infer"
        and call.ended.value["slug"] == "deadline_exceeded"
        and story.outcome is not None
        and story.outcome.kind is OutcomeKind.EXPIRED
    )


def _said(call: Call) -> str:
    assert call.ended is not None
    value = call.ended.value
    if value["outcome"] == "ok":
        return f"ok {value['text']!r} of index {value['ended_index']}"
    return f"{value['outcome']} {value.get('code', '')}".strip()
