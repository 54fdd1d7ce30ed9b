"""Marks of references that tell the answers of rows that nobody has looked at."""

from __future__ import annotations

import random
from collections.abc import Callable

from prime_lab_mcp.lab.datasets.findings import row_findings
from prime_lab_mcp.lab.datasets.leaking_marks import find_leaking_mark, references_of
from prime_lab_mcp.lab.datasets.tasks import TaskRow

CAUSES = {
    "dns": ["the host was not found", "no such name on the server", "the lookup gave nothing"],
    "disk": ["the volume is full", "writes fail since the quota was reached", "no space was left"],
    "auth": ["the token has run out", "a login was refused", "the certificate is no longer valid"],
}
Reference = Callable[[random.Random, str], str]


def incidents(reference: Reference, number: int = 60, opening: str = "Incident") -> list[tuple[str, str]]:
    """Texts of an incident after a line with its reference, and the cause of each."""
    chance = random.Random(3)
    rows = []
    for n in range(number):
        cause = list(CAUSES)[n % 3]
        where = chance.choice(["in the shop", "on the night shift", "after an update", "at the bank"])
        text = (
            f"Somebody in {chance.choice(['Graz', 'Turku', 'Vigo'])} wrote that {chance.choice(CAUSES[cause])} {where}."
        )
        rows.append((f"{opening} {reference(chance, cause)}\n\n{text}", cause))
    return rows


def prefixed(chance: random.Random, cause: str) -> str:
    return f"{cause[:2].upper()}-{chance.randint(1000, 9999)}"


def numbered(chance: random.Random, cause: str) -> str:
    return str(10 * chance.randint(1000, 9999) + list(CAUSES).index(cause))


def drawn(chance: random.Random, cause: str) -> str:
    return f"INC-{chance.randint(10000, 99999)}"


def test_a_prefix_that_was_made_with_the_labels_is_named_with_its_values() -> None:
    told = find_leaking_mark(incidents(prefixed), "Name the cause.")
    assert told is not None
    assert (told.name, dict(told.examples)) == ("beginning", {"dns": "dn", "disk": "di", "auth": "au"})
    assert told.beside_text


def test_a_last_digit_tells_as_well_as_a_prefix() -> None:
    told = find_leaking_mark(incidents(numbered), "Name the cause.")
    assert told is not None
    assert told.name == "last digit"


def test_references_that_were_drawn_tell_nothing() -> None:
    assert find_leaking_mark(incidents(drawn), "Name the cause.") is None


def test_a_task_about_codes_gives_nothing_away() -> None:
    told = find_leaking_mark(incidents(prefixed), "The prefix of the number names the cause.")
    assert told is not None
    assert not told.beside_text


def test_without_a_text_to_read_the_code_is_the_task() -> None:
    """Which airline a flight number belongs to, and whether a number is even, is asked of the number."""
    chance = random.Random(1)
    lines = {"LH": "Lufthansa", "AF": "Air France", "KL": "KLM"}
    flights = [(f"Whose flight is {code}{chance.randint(100, 9999):04}?", lines[code]) for code in list(lines) * 20]
    assert find_leaking_mark(flights, "") is None
    numbers = [chance.randint(1000, 99999) for _ in range(60)]
    assert find_leaking_mark([(f"Is {n} an even number?", "no" if n % 2 else "yes") for n in numbers], "") is None


def test_a_text_whose_words_tell_nothing_may_stand_beside_a_code_that_is_to_be_read() -> None:
    chance = random.Random(2)
    words = ["lamp", "desk", "chair", "shelf", "sofa", "stool", "rug", "mirror", "vase", "bench", "clock", "plate"]
    rows = [
        (f"Order {prefixed(chance, cause)}: {' '.join(chance.sample(words, 8))}", cause) for cause in list(CAUSES) * 20
    ]
    told = find_leaking_mark(rows, "Whose order is this?")
    assert told is not None
    assert not told.beside_text


def test_words_that_occur_again_are_names_and_no_references() -> None:
    models = {"dns": "DN-1000", "disk": "DI-2000", "auth": "AU-3000"}
    assert find_leaking_mark(incidents(lambda _, cause: models[cause]), "Name the cause.") is None


def test_times_amounts_and_dates_are_no_references() -> None:
    assert references_of("At 10:30 on 2024-05-17 he paid $4000 and 1,200.50 for #48213 (A17/203).") == [
        "48213",
        "A17/203",
    ]


def test_only_with_known_instructions_a_mark_blocks() -> None:
    rows = [TaskRow(prompt, cause, n, raw=cause) for n, (prompt, cause) in enumerate(incidents(prefixed))]

    def severities(instructions: str | None) -> list[str]:
        findings = row_findings(rows, format="label", instructions=instructions)
        return [f.severity for f in findings if f.code == "gold-in-prompt"]

    assert severities("Name the cause.") == ["blocker"]
    assert severities(None) == ["warning"]
