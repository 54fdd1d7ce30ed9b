"""A tool that lists four loans a page.

format: multi_turn
generation: v0

The page is an argument and its description says where the loans end, so that every loan can be found.
"""

import json
import random
import re

import verifiers as vf
from datasets import Dataset

SYSTEM = "Answer the question about the library's loans with the tools. Finish with a line `Answer: <number>`."
FIRST = ["Ana", "Bo", "Cem", "Dora", "Emil", "Fay"]
LAST = ["Marsh", "Quill", "Rowe", "Stone"]


def loans():
    rng = random.Random(11)
    return {
        f"{f} {l}": [
            {"book": f"B{rng.randint(100, 999)}", "days": rng.randint(1, 40)} for _ in range(rng.randint(2, 12))
        ]
        for f in FIRST
        for l in LAST
    }


LOANS = loans()


def list_loans(reader: str, page: int = 1) -> str:
    """List the loans of a reader by full name as JSON: the book and for how many days.

    Args:
        reader: the full name of the reader
        page: the page, four loans each; an empty list ends the loans
    """
    mine = LOANS.get(reader.strip(), [])
    return json.dumps(mine[4 * (page - 1) : 4 * page])


def right(completion, answer, **kwargs):
    text = completion[-1].get("content") or "" if isinstance(completion, list) else completion
    found = re.findall(r"^Answer:\s*(\d+)\s*$", text, re.M)
    return float(bool(found) and found[-1] == answer)


def load_environment(**kwargs):
    rows = []
    for reader, mine in LOANS.items():
        rows.append({"question": f"How many books has {reader} borrowed?", "answer": str(len(mine))})
        rows.append(
            {
                "question": f"For how many days together has {reader} borrowed books?",
                "answer": str(sum(m["days"] for m in mine)),
            }
        )
        rows.append(
            {
                "question": f"How many books has {reader} kept for more than 20 days?",
                "answer": str(sum(m["days"] > 20 for m in mine)),
            }
        )
    return vf.ToolEnv(
        dataset=Dataset.from_list(rows),
        system_prompt=SYSTEM,
        tools=[list_loans],
        rubric=vf.Rubric(funcs=[right]),
        max_turns=10,
    )
