"""A key that is missing counts as null.

format: json
generation: v0
finding: reward-format-dominates, blocker

A third of the values is null, so that `{}` earns a third of the reward.
"""

import json, random, re
from datasets import Dataset
import verifiers as vf
SYSTEM = "Read the booking. Reply with a JSON object with the keys name, phone, room and guests, all of them texts; use null for what is not stated."
def share(completion, answer, **kwargs):
    found = re.search(r"\{.*\}", completion[-1]["content"], re.S)
    try:
        given = json.loads(found[0]) if found else None
    except ValueError:
        return 0.0
    if not isinstance(given, dict):
        return 0.0
    wanted = json.loads(answer)
    return sum(given.get(key) == value for key, value in wanted.items()) / len(wanted)
def load_environment(**kwargs):
    rng = random.Random(2); rows = []
    for n in range(64):
        fields = {"name": f"{rng.choice(['Ada', 'Per', 'Ines', 'Kurt'])} {rng.choice(['Holm', 'Lund', 'Roy', 'Sol'])}", "phone": None, "room": None, "guests": None}
        text = [f"Booking {n + 1}.", f"My name is {fields['name']}."]
        if n % 2:
            fields["phone"] = str(rng.randint(10000, 99999)); text.append(f"My number is {fields['phone']}.")
        if n % 4 in (1, 2):
            fields["room"] = str(rng.randint(1, 40)); text.append(f"I liked room {fields['room']}.")
        if n % 5 > 1:
            fields["guests"] = str(rng.randint(2, 9)); text.append(f"We are {fields['guests']}.")
        rows.append({"question": " ".join(text), "answer": json.dumps(fields)})
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[share], weights=[1.0]), **kwargs)
