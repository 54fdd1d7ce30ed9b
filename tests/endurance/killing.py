"""Kills servers in the middle of calls: nothing recorded is lost, nothing is sent twice, no process stays."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

from tests.endurance.messages import Messages
from tests.endurance.servers import Place, StdioServer, wait_until_gone
from tests.endurance.tally import Tally
from tests.lab.evals.conftest import write_environment
from tests.tools.loopback import CONFIG

NAME = "sums_v1"
RECORDED = ("check_environment", "test_reward")
"""Tools of which each answered verdict is a row of the ledger."""
_CHEAP = ("workflow_status", "read_environment", "edit_environment", "read_reference", "inspect_dataset")
_SETTLING_CALLS = 40
_SUBMITTED_AGAIN = 5
"""Configs of a workspace that are submitted again although their run was answered. Each takes some seconds, and a long
run has more than a hundred."""
_FIRST_ANSWER_SECONDS = 60.0
_DYING_SECONDS = 15.0
"""Time in which a killed server is gone, also on a busy machine. A server that lives on after it has stopped answering
is a flaw."""
_VERDICT_SECONDS = 240.0
"""Longest wait of a patient round for its verdict, also on a busy machine."""
_ANSWER_SECONDS = 300.0
"""Longest time of a call under kills. Eight servers share the machine, and each may run an environment."""
_PATIENT_ROUNDS, _PATIENT = 6, 4
"""One round in six is patient: its servers, with one client each, are killed right after the answer of a check or a
reward test, when a verdict that was answered and not yet kept would be lost. In the other rounds most kills come before
any of them."""
_ROUNDS_OF_A_CONFIG = 4
"""Two of these rounds are expensive: what one left unknown is submitted again among the kills of the other."""


class Kills:
    """Rounds of servers that are killed, and the books of what they had answered before."""

    def __init__(self, place: Place, tally: Tally, seed: int, *, dear: bool) -> None:
        """`dear`: every other round also calls what runs the environment, publishes and submits, and one in six waits
        for verdicts."""
        self.place, self.tally, self.draw, self.dear = place, tally, random.Random(seed), dear
        self.messages = Messages(seed)
        self.acknowledged: Counter[str] = Counter()
        self.newest: dict[str, str] = {}
        """The newest answer of each recorded tool, which a lost verdict is shown with."""
        self.runs: dict[str, str] = {}
        """Ids of runs that were answered, by the name in the config."""
        self.rows: dict[str, int] = {}
        self._lock = threading.Lock()
        self._answered = threading.Event()
        """Set by the first answered call of a round."""
        self._judged = threading.Event()
        """Set by the first verdict of a round that the ledger must hold."""
        write_environment(place.workspace)
        (place.workspace / "data.jsonl").write_text(
            "".join(json.dumps({"question": f"{n} + 1?", "answer": str(n + 1)}) + "\n" for n in range(50))
        )
        self.submitted = 0

    def rounds(self, more: Callable[[int], bool], servers: int = 2, clients: int = 4) -> None:
        number = 0
        while more(number):
            self._round(number, servers, clients)
            number += 1
            self._books()
        left = list(wait_until_gone(self.place))
        if left:
            self.tally.flaw("orphans", f"after the last kill: {left[:3]}")

    def _round(self, number: int, servers: int, clients: int) -> None:
        """Start servers on the same workspace, call with several clients each, and kill them one after the other."""
        dear = self.dear and number % 2 == 0
        patient = self.dear and number % _PATIENT_ROUNDS == _PATIENT
        self._answered.clear()
        self._judged.clear()
        running = [StdioServer(self.place) for _ in range(servers)]
        threads = [
            threading.Thread(
                target=self._client, args=(server, random.Random(self.draw.random()), number, dear, patient)
            )
            for server in running
            for _ in range(1 if patient else clients)
        ]
        if self.draw.random() < 0.9:  # else the kill may come before the first answer
            for server in running:
                server.start()
        for thread in threads:
            thread.start()
        if self.draw.random() < 0.7:  # else most kills on a busy machine come while the servers import
            self._answered.wait(_FIRST_ANSWER_SECONDS)
        for server in running:
            if patient:
                kept = self._judged.wait(_VERDICT_SECONDS)
                self.tally.count(
                    f"patient kills {'after' if kept else 'without'} a verdict of a check or a reward test"
                )
                self._judged.clear()
                time.sleep(self.draw.choice((0.0, 0.0, 0.01, 0.1)) * self.draw.random())
            else:
                time.sleep(self.draw.choice((0.0, 0.05, 0.3, 1.0, *((2.5, 5.0) if dear else ()))) * self.draw.random())
            if server.process.poll() is not None:
                self.tally.flaw("crashes", f"a server ended by itself with {server.process.returncode}")
            server.kill()
            self.tally.count("kills")
            self.tally.count(f"kills in {'expensive' if dear else 'cheap'} calls")
            if server.garbage and not server.garbage[-1].endswith(b"\n"):
                server.garbage.pop()  # the line in whose middle the server was killed
            if server.garbage:
                self.tally.flaw("crashes", f"stdout held what is no message: {server.garbage[0]!r}")
        for thread in threads:
            thread.join()
        left = list(wait_until_gone(self.place))
        if left:
            self.tally.flaw("orphans", f"20 s after kill {number}: {left[:3]}")

    def _client(self, server: StdioServer, draw: random.Random, number: int, dear: bool, patient: bool) -> None:
        while server.process.poll() is None:
            tool, arguments = self._call(draw, number, dear, patient)
            self.tally.count(f"calls under kills: {tool}")
            report = server.call(tool, arguments, _ANSWER_SECONDS)
            if report is None:
                if not server.ends_within(_DYING_SECONDS):
                    self.tally.flaw("unanswered", f"{tool} {arguments}")
                return
            self._note(tool, arguments, report)

    def _call(self, draw: random.Random, number: int, dear: bool, patient: bool) -> tuple[str, Mapping[str, Any]]:
        kind = draw.random()
        if patient and kind < 0.8:
            return draw.choice(RECORDED), {"environment": NAME}
        if dear and kind < 0.25:
            return "submit_training", {"config": self._config(number // _ROUNDS_OF_A_CONFIG), "yes": True}
        if dear and kind < 0.45:
            return draw.choice(("check_environment", "test_reward", "run_eval", "push_environment", "preflight")), {
                "environment": NAME
            }
        if kind < 0.6:
            tool = draw.choice(sorted(self.messages.schemas))
            arguments = self.messages.arguments(tool)
            return tool, arguments if isinstance(arguments, dict) else {}
        tool = draw.choice(_CHEAP)
        given: dict[str, dict[str, Any]] = {
            "read_environment": {"environment": NAME},
            "edit_environment": {"environment": NAME, "path": "NOTES.md", "new": "x" * draw.randrange(20_000)},
            "read_reference": {"topic": "guide/workflow"},
            "inspect_dataset": {"dataset": "data.jsonl"},
        }
        return tool, given.get(tool, {})

    def _config(self, number: int) -> str:
        """A config that trains a foreign environment: the same for all clients of some rounds."""
        with self._lock:
            path = self.place.workspace / f"c{number}.toml"
            if not path.exists():
                # Eight groups: smaller batches that nobody measured take a person's answer.
                text = CONFIG.replace("batch_size = 16", "batch_size = 64")
                path.write_text(f'name = "c{number}"\n{text}', encoding="utf-8")
                self.submitted += 1
            return path.name

    def _note(self, tool: str, arguments: Mapping[str, Any], report: Mapping[str, Any]) -> None:
        status, text = report.get("status"), json.dumps(report)
        if '"internal-error"' in text:
            self.tally.flaw("crashes", f"{tool} {str(arguments)[:150]}: {report.get('summary')} {text[:300]}")
        self.tally.count(f"answered before the kill: {status}")
        self._answered.set()
        with self._lock:
            if tool in RECORDED and arguments == {"environment": NAME} and status in ("passed", "failed"):
                self.acknowledged[tool] += 1
                self.tally.count(f"verdicts answered before a kill: {tool}")
                self._judged.set()
                self.newest[tool] = text[:1500]
            id = report.get("data", {}).get("id")
            if tool == "submit_training" and status == "passed" and isinstance(id, str):
                name = str(arguments["config"]).removesuffix(".toml")
                if self.runs.setdefault(name, id) != id:
                    self.tally.flaw("double sends", f"{name} is {self.runs[name]} and {id}")

    def _books(self) -> None:
        """Compare the ledger with what was answered. No server runs."""
        ledger = self.place.state / "ledger.sqlite3"
        if not ledger.exists():
            return
        with closing(sqlite3.connect(ledger, timeout=20)) as database:
            [state] = database.execute("PRAGMA integrity_check").fetchone()
            # A server that was killed at its start leaves a file without tables: no verdict can have been answered.
            begun = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'evidence'").fetchone()
            rows = dict(database.execute("SELECT tool, count(*) FROM evidence GROUP BY tool")) if begun else {}
        if state != "ok":
            self.tally.flaw("lost verdicts", f"the ledger is damaged: {state}")
        for tool, number in self.acknowledged.items():
            if rows.get(tool, 0) < number:
                newest = self.newest.get(tool)
                self.tally.flaw("lost verdicts", f"{number} answers of {tool}, {rows.get(tool, 0)} rows: {newest}")
                self.acknowledged[tool] = rows.get(tool, 0)
        for tool, number in self.rows.items():
            if rows.get(tool, 0) < number:
                self.tally.flaw("lost verdicts", f"{number} rows of {tool} became {rows.get(tool, 0)}")
        self.rows = rows
        name = f"verdicts in the ledger of {self.place.root.name}"
        self.tally.measured[name] = ", ".join(f"{t} {n}" for t, n in sorted(rows.items()))

    def settle(self) -> None:
        """Submit configs again as an agent would, until each is a run or refused; compare with the platform.

        Those are all submitted again of which no run was answered, and a few others.
        """
        found = sorted(self.place.workspace.glob("c*.toml"))
        answered = [path for path in found if path.stem in self.runs]
        again = self.draw.sample(answered, min(_SUBMITTED_AGAIN, len(answered)))
        configs = [path for path in found if path.stem not in self.runs or path in again]
        if configs:
            server = StdioServer(self.place).start()
            for path in configs:
                self._until_known(server, path.name)
            server.end()
        platform = self.place.state / "rehearsal" / "platform" / "platform.sqlite3"
        if not platform.exists():
            return
        with closing(sqlite3.connect(platform, timeout=20)) as database:
            bodies = [json.loads(b) for (b,) in database.execute("SELECT body FROM documents WHERE kind = 'run'")]
        of = Counter(
            str(body["name"]).rsplit("-", 1)[0] for body in bodies if str(body.get("name", "")).startswith("c")
        )
        for name, number in of.items():
            if number > 1:
                self.tally.flaw("double sends", f"{name} was started {number} times")
        for name in self.runs:
            if not of.get(name):
                self.tally.flaw("lost verdicts", f"{name} was answered as a run, and the platform has none")
        self.tally.count("submissions that are one run after all kills", sum(of.values()))

    def _until_known(self, server: StdioServer, config: str) -> None:
        report: Mapping[str, Any] | None = None
        for _ in range(_SETTLING_CALLS):
            report = server.call("submit_training", {"config": config, "yes": True}, 120)
            if report is None:
                break
            self._note("submit_training", {"config": config}, report)
            if report.get("status") == "passed":
                return
            if any(f.get("code") == "payment-required" for f in report.get("findings", ())):
                self.tally.count("submissions that the stand-in's empty wallet refused")
                return
            time.sleep(1)
        self.tally.flaw("unanswered", f"{config} was not settled: {json.dumps(report)[:600]}")
