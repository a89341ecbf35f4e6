"""How long a run over real processes waits for what may never come.

What lives here: that. What must never live here: a wait. Called by: `chaos.running`, workloads.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Where one is over, a promise is broken, but for those of `calm_s`, `step_s`, `refuse_s`.

    Attributes:
        outcomes_min: the safety phase goes on, for half a minute more at most, until there are so
            many: a machine that is busy does less in the same time.
        answers_s: how long calls may last once all is healed: log time, backoffs, retries.
        idle_s: how long nodes may take after that to have nothing left to do.
        heal_s: how long all may take to be there again after all faults.
        stop_s: how long one may take to end after SIGTERM.
        calm_s: how long clients go on in calm; a fifth of the safety phase, where that is more,
            and at most 15 s.
        step_s: for one step of a change of members to be seen, under faults; it goes on after the
            heal.
        gone_s: for a node that was removed to end, under faults, and once more after the heal.
        refuse_s: for a node to refuse its start: its founder may be silent for ten.
        change_s: for what cannot be left as it is of a change, once all is healed.
    """

    outcomes_min: int = 0
    answers_s: float = 120.0
    idle_s: float = 60.0
    heal_s: float = 120.0
    stop_s: float = 30.0
    calm_s: float = 3.0
    step_s: float = 20.0
    gone_s: float = 20.0
    refuse_s: float = 15.0
    change_s: float = 60.0
