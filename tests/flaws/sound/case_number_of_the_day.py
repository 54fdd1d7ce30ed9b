"""Case numbers that have nothing to do with the desk.

format: label
generation: v1

The number of a letter is drawn without regard to its desk, and the letter says what is wanted.
"""

import random
import re

import verifiers.v1 as vf

SYSTEM = (
    "Read the customer's letter and name the desk: returns, exchange, or invoices. Finish with a line `Desk: <name>`."
)
TEXTS = {
    "returns": [
        "I do not want the {} any more and send it back.",
        "Please take the {} back, I never opened it.",
        "The {} was a present that nobody needs, so here it comes.",
    ],
    "exchange": [
        "The {} is too small, I need the next size.",
        "My {} is red and I had asked for blue.",
        "Could I have another {} that is not scratched?",
    ],
    "invoices": [
        "You charged me twice for the {}.",
        "I need a paper with the tax of the {}.",
        "The sum for the {} differs from your offer.",
    ],
}
GOODS = ["coat", "lamp", "kettle", "tent", "jacket", "backpack", "printer", "chair"]


class LetterData(vf.TaskData):
    desk: str


class Letter(vf.Task[LetterData]):
    @vf.reward
    async def named(self, trace: vf.Trace) -> float:
        found = re.findall(r"^Desk:\s*(\w+)\s*$", trace.last_reply or "", re.M)
        return float(len(found) == 1 and found[0].lower() == self.data.desk)


class Letters(vf.Taskset[Letter, vf.TasksetConfig]):
    def load(self):
        rng = random.Random(9)
        for n in range(90):
            desk = list(TEXTS)[n % 3]
            number = 10 * rng.randint(1000, 9999) + rng.randint(0, 9)
            text = f"Case {number}, received by {rng.choice(['mail', 'phone', 'form'])}.\n\n{rng.choice(TEXTS[desk]).format(rng.choice(GOODS))}"
            yield Letter(LetterData(idx=n, prompt=text, system_prompt=SYSTEM, desk=desk), self.config.task)


__all__ = ["Letters"]
