"""Constants that a simulated run sets otherwise are as before in the end."""

from __future__ import annotations

import pytest

from chaos.tuning import tuned
from coordinator import agreement, time_note


def _broken_run() -> None:
    with tuned((agreement, "EVERY", 8), (time_note, "NOTE_S", 0.5)):
        raise ValueError(f"{agreement.EVERY} {time_note.NOTE_S}")


def test_constants_are_as_before_whatever_a_run_ends_with() -> None:
    every, note_s = agreement.EVERY, time_note.NOTE_S
    with pytest.raises(ValueError, match=r"8 0\.5"):
        _broken_run()
    assert every == agreement.EVERY
    assert note_s == time_note.NOTE_S


def test_constant_that_is_none_is_refused() -> None:
    with pytest.raises(AttributeError), tuned((agreement, "NEVER", 8)):
        pass
    assert not hasattr(agreement, "NEVER")
