"""The reward asks which mails are left.

format: tool_call
generation: v0

Twin of v0_deletes_all_mails, with a solution.
"""

import json, random
from datasets import Dataset
import verifiers as vf
SYSTEM = "You tidy a mailbox with the tools list_mails and delete_mail. Delete exactly the mails that the user names, keep all others, then say that you are done."
async def list_mails(box: dict) -> str:
    """All mails with number, sender and year."""
    return "\n".join(f"{k}: {m['from']}, {m['year']}" for k, m in box["mails"].items())
async def delete_mail(number: int, box: dict) -> str:
    """Delete one mail.

    Args:
        number: number of the mail
    """
    return "deleted" if box["mails"].pop(str(number), None) else "no such mail"
class Mailbox(vf.StatefulToolEnv):
    def __init__(self, **kwargs):
        super().__init__(tools=[], **kwargs)
        self.add_tool(list_mails, args_to_skip=["box"]); self.add_tool(delete_mail, args_to_skip=["box"])
    async def setup_state(self, state, **kwargs):
        await super().setup_state(state, **kwargs)
        state["box"] = {"mails": json.loads(state["info"]["mails"])}
    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "box": state["box"]}
def tidy(state, info, **kwargs):
    left = state["box"]["mails"]; before = json.loads(info["mails"])
    gone = [k for k, m in before.items() if m["from"] == info["sender"]]
    return float(set(left) == set(before) - set(gone))
def load_environment(**kwargs):
    rng = random.Random(27); rows = []
    people = ["Ann", "Ben", "Cid", "Dot", "Eli"]
    for n in range(60):
        mails = {str(k): {"from": rng.choice(people), "year": rng.randrange(2018, 2025)} for k in range(1, 9)}
        sender = rng.choice([m["from"] for m in mails.values()])
        rows.append({"question": f"Delete all mails from {sender}.", "answer": "", "info": {"mails": json.dumps(mails), "sender": sender}})
    return Mailbox(dataset=Dataset.from_list(rows), system_prompt=SYSTEM, rubric=vf.Rubric(funcs=[tidy], weights=[1.0]), max_turns=14, **kwargs)


def solution(info):
    mails = json.loads(info["mails"])
    calls = [("list_mails", {})] + [("delete_mail", {"number": int(k)}) for k, m in mails.items() if m["from"] == info["sender"]]
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [{"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}]}
        for n, (name, given) in enumerate(calls)
    ]
    return [*messages, {"role": "assistant", "content": "Done."}]
