"""The ledger: append-only verdicts, and records of everything that was sent to the platform."""

from __future__ import annotations
