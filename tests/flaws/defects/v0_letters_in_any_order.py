"""Any order of the right letters is paid.

format: short_text
generation: v0
finding: reward-wrong-passes, blocker

The letters of the prompt as they stand are paid like the word.
"""

import random, re
from datasets import Dataset
import verifiers as vf
WORDS = "planet garden silver window bridge candle forest market pencil basket rocket temple orange castle ribbon salmon turtle velvet walnut yellow bottle copper dragon engine falcon goblet hammer island jacket kettle ladder magnet needle oyster parrot quiver racket saddle tunnel violin button cactus dinner effort fabric glider hermit insect jungle kidney lizard mirror nickel onions pebble".split()
def found(completion, answer, **kwargs):
    said = re.findall(r"<word>\s*([a-z]+)\s*</word>", completion[-1]["content"].lower())
    return float(bool(said) and sorted(said[-1]) == sorted(answer))
def load_environment(**kwargs):
    rng = random.Random(1)
    rows = [{"question": "Which word do these letters make? " + "".join(rng.sample(word, len(word))), "answer": word} for word in WORDS]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), system_prompt="Reply with the word in <word></word>.", rubric=vf.Rubric(funcs=[found], weights=[1.0]), **kwargs)
