"""Stories: what a log tells of each request and batch, folded out of its entries.

What lives here: the fold and its values, in the words of F0 alone. What must never live here:
the coordinators' own state machine, which it is there to contradict. Called by: the command
line, the demo, tests.
"""

from raftbatch.stories.fold import Stories
from raftbatch.stories.values import Attempt, BatchStory, Counts, Event, Outcome, Story

__all__ = ["Attempt", "BatchStory", "Counts", "Event", "Outcome", "Stories", "Story"]
