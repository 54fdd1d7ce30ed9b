"""Checks the golds of rows: missing, contradictory or unreadable golds, mixed formats, and golds in the prompt.

Each check is a pure function of `RowObservations`. docs/validation.md, Dataset findings, lists the thresholds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets.formats import ACCEPTED_SHARE, BOXED_SHARE
from prime_lab_mcp.lab.datasets.labelled_golds import LabelledGolds
from prime_lab_mcp.lab.datasets.leaking_fields import find_leaking_field
from prime_lab_mcp.lab.datasets.leaking_marks import find_leaking_mark
from prime_lab_mcp.lab.datasets.listed_orders import ListedOrders
from prime_lab_mcp.lab.datasets.observation import RowCheck, RowObservations
from prime_lab_mcp.lab.datasets.tasks import (
    EXAMPLE_ROWS,
    OPEN_ENDED,
    FlawTally,
    tally_finding,
)


def empty_gold(observations: RowObservations) -> Iterator[Finding]:
    """Report rows without an answer. No completion can earn a reward there."""
    doubtful = observations.doubtful if 0 < observations.doubtful.total <= 0.05 * observations.rows else FlawTally()
    total = observations.empty.total + doubtful.total
    if not total:
        return
    tally = FlawTally(total, (observations.empty.examples + doubtful.examples)[:EXAMPLE_ROWS])
    severe = observations.empty.total > 0.01 * observations.rows
    detail = f" ({doubtful.total:,} of them say none)" if doubtful.total else ""
    yield tally_finding(
        "empty-gold",
        "blocker" if severe else "warning",
        tally,
        observations.rows,
        f"have no answer{detail}; no completion can ever score there.",
        "Remove these rows, or name another answer column.",
    )


def conflicting_gold(observations: RowObservations) -> Iterator[Finding]:
    """Report equal prompts with different answers."""
    tally, rows = (
        (observations.conflicts, observations.rows)
        if observations.repeats is None
        else (observations.repeats.conflicts, observations.repeats.rows)
    )
    if tally.total and observations.format not in OPEN_ENDED:
        yield tally_finding(
            "conflicting-gold",
            "blocker" if tally.total >= 0.01 * rows else "warning",
            tally,
            rows,
            "ask what an earlier row asks and give another answer.",
            "Keep the right one of each pair, or add the column that tells them apart to the prompt.",
        )


def gold_in_prompt(observations: RowObservations) -> Iterator[Finding]:
    """Report prompts that contain their own answer.

    Only a warning where it stands behind the same label of all prompts and would be searched otherwise: extraction of
    this entry looks alike. A blocker where the prompts ask to work the answer out.
    """
    revealed = observations.revealed
    if revealed.share <= 0.2 or revealed.is_searched:
        told = list(_leaking_labels(observations.labelled))
        yield from told
        if told:
            return
    if revealed.share <= 0.05:
        return
    if revealed.is_searched:
        message = "hold the answer somewhere in the prompt, as in extractive question answering."
        fix = "Nothing to do where the task is to find it there; else take the text it stands in out of the prompt."
    else:
        message = "state the answer in the prompt, so copying scores."
        fix = "Take the column that gives it away out of the prompt, or drop these rows."
    severe = revealed.share > 0.2 and not revealed.is_searched
    yield tally_finding(
        "gold-in-prompt", "blocker" if severe else "info", revealed.rows, revealed.compared, message, fix
    )


def _leaking_labels(labelled: LabelledGolds) -> Iterator[Finding]:
    label = labelled.best()
    if label is None:
        return
    worked_out = 2 * labelled.worked_out > labelled.rows
    yield Finding(
        "gold-in-prompt",
        "blocker" if worked_out else "warning",
        f"the answer stands behind {quote(label[0], 40)} in {label[1]:.0%} of "
        f"{count(labelled.rows, 'prompt')}: a model that copies this entry works nothing out",
        "Take the entry out of the prompt; it asks to work the answer out."
        if worked_out
        else "Take the entry out of the prompt if the answer is to be worked out; leave it if the task is to read it.",
    )


def leaking_labels(records: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """Report the label of the prompts behind which the answers of (prompt, answer) pairs stand."""
    labelled = LabelledGolds()
    for prompt, gold in records:
        labelled.add(prompt, gold)
    yield from _leaking_labels(labelled)


def leaking_order(records: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    """Report (prompt, answer) pairs whose prompts list items in the right order, as `ListedOrders` finds them."""
    orders = ListedOrders()
    for prompt, gold in records:
        orders.add(prompt, gold)
    yield from orders.findings()


def field_tells_gold(observations: RowObservations) -> Iterator[Finding]:
    """Report a field of the prompts whose value decides the answer.

    A warning, because a task may be to read this field.
    """
    leaking = find_leaking_field(observations.records)
    if leaking is not None:
        pairs = ", ".join(f"{quote(value, 40)} for {quote(answer, 40)}" for answer, value in leaking.examples.items())
        yield Finding(
            "gold-in-prompt",
            "warning",
            f"the field {quote(leaking.name, 40)} of the prompts decides the answer on {leaking.share:.0%} of "
            f"{count(len(observations.records), 'row')} ({pairs}), so a model reads nothing else",
            "Take the field out of the prompt if it was written with the labels; leave it if the task is to read it.",
        )


def reference_tells_gold(observations: RowObservations) -> Iterator[Finding]:
    """Report references in the prompts, such as case numbers, of which a part decides the answer.

    A blocker where the answer is to be read from a text beside it: such a rule pays on every task and reads nothing. A
    warning where the task may be to read the reference.
    """
    yield from leaking_references(observations.records, observations.instructions)


def leaking_references(records: Sequence[tuple[str, str]], instructions: str | None) -> Iterator[Finding]:
    """Report the mark of references that decides the answers of (prompt, answer) pairs."""
    leaking = find_leaking_mark(records, instructions)
    if leaking is not None:
        pairs = ", ".join(f"{quote(value, 20)} for {quote(answer, 40)}" for answer, value in leaking.examples.items())
        yield Finding(
            "gold-in-prompt",
            "blocker" if leaking.beside_text else "warning",
            f"the {leaking.name} of the references in the prompts, such as {quote(leaking.reference, 40)}, decides the "
            f"answer ({pairs}): a rule learnt on half of {count(len(records), 'row')} is right on "
            f"{leaking.share:.0%} of the others, so a model need not read the text",
            "Leave the reference out of the prompt, or number the tasks without regard to their answers."
            if leaking.beside_text
            else "Leave the reference out of the prompt if it was made with the labels; leave it if the task is to "
            "read it.",
        )


def mixed_format(observations: RowObservations) -> Iterator[Finding]:
    """Report a column in which too many answers have another format than most.

    `gold_unparseable` reports solutions without a box instead.
    """
    if _boxed_solutions(observations):
        return
    if observations.answered and 1 - observations.misfits.total / observations.answered < ACCEPTED_SHARE:
        yield tally_finding(
            "mixed-format",
            "blocker",
            observations.misfits,
            observations.answered,
            f"do not have the form {observations.format} of the others; no one parser is right for all.",
            "Bring the answers into one form or drop these rows; if the form is misjudged, name another answer_column.",
        )


def _boxed_solutions(observations: RowObservations) -> bool:
    """Return whether the answers are solution texts of which most, but not all, have a \\boxed{}."""
    misfits = observations.misfits.total
    return observations.format == "boxed" and 0 < misfits <= (1 - BOXED_SHARE) * observations.answered


def gold_unparseable(observations: RowObservations) -> Iterator[Finding]:
    """Report answers that cannot be read in the column's format."""
    share = observations.misfits.total / max(1, observations.answered)
    if _boxed_solutions(observations):
        yield tally_finding(
            "gold-unparseable",
            "warning",
            observations.misfits,
            observations.answered,
            "are solutions without \\boxed{} (proofs, or texts that break off): they state no answer to compare with.",
            "Nothing to do: create_environment leaves these rows out and counts them. In an environment of your own, "
            "leave them out of load().",
        )
    elif 0 < share <= 1 - ACCEPTED_SHARE:
        yield tally_finding(
            "gold-unparseable",
            "blocker" if share > 0.01 else "warning",
            observations.misfits,
            observations.answered,
            f"cannot be read as {observations.format}; a reward that parses this form never pays there.",
            "Correct these answers or drop the rows.",
        )
    elif share == 0 and observations.positions and observations.without_option.total:
        severe = observations.without_option.total > 0.01 * observations.answered
        yield tally_finding(
            "gold-unparseable",
            "blocker" if severe else "warning",
            observations.without_option,
            observations.answered,
            "have an answer that names none of their options.",
            "Correct these answers or drop the rows.",
        )


def float_gold(observations: RowObservations) -> Iterator[Finding]:
    """Report answers that are stored as floating-point numbers."""
    if observations.floats.total:
        yield tally_finding(
            "float-gold",
            "warning",
            observations.floats,
            observations.answered,
            "are floating-point numbers whose text nobody writes: 75 is stored as 75.0, and text never matches.",
            "Compare as numbers with a tolerance, as the template numeric does; make class ids integers.",
        )


def misleading(observations: RowObservations) -> Iterator[Finding]:
    """Report answers with characters that look like others, and prompts that were decoded wrongly."""
    if observations.misleading.total:
        yield tally_finding(
            "unicode",
            "warning",
            observations.misleading,
            observations.answered,
            "have an answer with characters that look like others, so a right completion compares as different.",
            "Normalise both sides (unicodedata.normalize NFKC, spaces collapsed) in the reward, or clean the answers.",
        )
    elif observations.mojibake.total:
        yield tally_finding(
            "unicode",
            "info",
            observations.mojibake,
            observations.rows,
            "have a prompt that was decoded wrongly (UTF-8 read as Latin-1, or lost characters).",
            "Read the source as UTF-8, or repair the text with ftfy.",
        )


GOLD_CHECKS: tuple[RowCheck, ...] = (
    empty_gold,
    conflicting_gold,
    gold_in_prompt,
    field_tells_gold,
    reference_tells_gold,
    mixed_format,
    gold_unparseable,
    float_gold,
    misleading,
)
