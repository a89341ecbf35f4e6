"""A journal whose files were damaged opens with all that was acknowledged, or not at all.

Every test damages the same journal of some 100 records in several segments,
over real files; a complaint names the file and the byte, and repeats in every run.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from chaos.suites.storage import IDENTITY
from tests.storage import damage
from tests.storage.story import Story, first_complaints, scratch, write_story
from tests.tidy.tree import expect_none


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    """Return the journal; each check leaves it as it was."""
    with scratch() as directory:
        yield write_story(directory)


@pytest.mark.slow  # 66,000 openings: under 20 seconds
def test_journal_cut_at_any_byte_of_any_file_is_whole_or_refused(story: Story) -> None:
    expect_none(first_complaints(damage.truncations(story)))


def test_journal_zeroed_from_any_record_on_is_whole_or_refused(story: Story) -> None:
    expect_none(first_complaints(damage.zeroed_tails(story)))


def test_journal_with_a_flipped_bit_is_whole_or_refused(story: Story) -> None:
    expect_none(first_complaints(damage.flips(story)))


def test_journal_with_a_flipped_bit_after_a_power_cut_loses_at_most_the_last_group(
    story: Story,
) -> None:
    # docs/GUARANTEES.md: damage there cannot be told from a torn write.
    forgetful = story.forget_mark()
    expect_none(first_complaints(damage.flips(forgetful)))


def test_journal_that_lacks_a_file_is_refused(story: Story) -> None:
    expect_none(first_complaints(damage.deletions(story)))


def test_journal_whose_segments_have_each_others_names_is_refused(story: Story) -> None:
    expect_none(first_complaints(damage.swaps(story)))


def test_journal_with_a_segment_of_another_journal_is_refused(story: Story) -> None:
    with scratch() as directory:
        other = write_story(directory, replace(IDENTITY, incarnation=2))
        assert other.segments == story.segments, "the same seed names the same segments"
        expect_none(first_complaints(damage.strangers(story, other)))
