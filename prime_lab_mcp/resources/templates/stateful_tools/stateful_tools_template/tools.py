"""The tool: SQL on the database of this rollout. Every rollout has a server, and so a database, of its own."""

from __future__ import annotations

import sqlite3

import verifiers.v1 as vf

from stateful_tools_template import database
from stateful_tools_template.rollout import StatefulToolsTemplateData, StatefulToolsTemplateState


class StatefulToolsTemplateToolset(vf.Toolset[vf.ToolsetConfig, StatefulToolsTemplateState]):
    """One tool. A statement that fails says why, beginning with `error`, so that the next can be better."""

    TOOL_PREFIX = None

    async def setup_task(self, task: StatefulToolsTemplateData) -> None:
        """Make the database of the task. Called once, before the first call of the model."""
        self.db = database.database(task.workshop)

    @vf.tool
    def run_sql(self, sql: str) -> str:
        """Run one SQLite statement on the database: SELECT, INSERT, UPDATE or DELETE. At most 20 rows are shown."""
        try:
            result = database.run(self.db, sql)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            self.state.failed += 1
            return f"error: {error}"
        self.state.statements += 1
        self.state.fingerprint = database.fingerprint(self.db)
        return result


if __name__ == "__main__":
    StatefulToolsTemplateToolset.run()
