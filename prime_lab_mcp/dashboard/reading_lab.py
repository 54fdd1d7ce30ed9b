"""`ReadingLab`: the lab of a page, which cannot write. SQLite itself refuses changes of the ledger."""

from __future__ import annotations

from functools import cached_property

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.snapshot import FolderSnapshots


class ReadingLab(Lab):
    """A lab whose ledger refuses writes and whose snapshots store no copies."""

    @cached_property
    def ledger(self) -> Ledger:
        opened = Ledger(self.settings.ledger)
        opened.refuse_writes()
        return opened

    @cached_property
    def snapshots(self) -> FolderSnapshots:
        return FolderSnapshots(None)

    def job(self, id: str) -> Job:
        """An evaluation of this workspace, as the ledger has it. Raises BadInput (`eval-not-found`)."""
        found = self.ledger.job(id)
        if found is None or found.workspace != self.key:
            raise BadInput(
                f"there is no evaluation {quote(id, 80)} in this workspace",
                fix="Choose one of the list.",
                code="eval-not-found",
            )
        return found

    async def close(self) -> None:
        """Close the ledger, end what `closing` names, and delete nothing."""
        for close in self.closing:
            await close()
        if "ledger" in self.__dict__:
            self.ledger.close()
