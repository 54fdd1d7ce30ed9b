"""The tables of the ledger. A change of the schema needs a new SCHEMA_VERSION and a migration in `Ledger`."""

from __future__ import annotations

import sqlite3

SCHEMA_VERSION = 3
_SCHEMA = """
CREATE TABLE evidence (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, workspace TEXT NOT NULL, tool TEXT NOT NULL,
  environment TEXT, source TEXT, content TEXT, config_sha256 TEXT, arguments TEXT NOT NULL,
  status TEXT NOT NULL, platform TEXT, model TEXT, endpoint_host TEXT, sampling TEXT NOT NULL,
  harness TEXT, runtime TEXT, env_args TEXT NOT NULL, toolchain TEXT NOT NULL,
  findings TEXT NOT NULL, data TEXT NOT NULL, results_sha256 TEXT);
CREATE INDEX evidence_by_subject ON evidence (workspace, tool, source);
CREATE TRIGGER evidence_is_final BEFORE UPDATE ON evidence BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER evidence_stays BEFORE DELETE ON evidence BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TABLE snapshots (
  workspace TEXT NOT NULL, environment TEXT NOT NULL, content TEXT NOT NULL, source TEXT NOT NULL,
  cli_hash TEXT NOT NULL, files TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (workspace, environment, content));
CREATE TABLE pushes (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, workspace TEXT NOT NULL, environment TEXT NOT NULL,
  owner TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, source TEXT NOT NULL,
  content TEXT NOT NULL, cli_hash TEXT NOT NULL, hub_hash TEXT, api TEXT, verified TEXT NOT NULL,
  platform TEXT NOT NULL);
CREATE TABLE runs (
  id TEXT NOT NULL, at REAL NOT NULL, workspace TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
  intent TEXT NOT NULL, config_path TEXT, config_sha256 TEXT, price_per_hour REAL, max_cost REAL,
  platform TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (id, platform));
CREATE TABLE intents (
  key TEXT NOT NULL, platform TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, at REAL NOT NULL,
  attempt INTEGER NOT NULL, holder TEXT, result TEXT NOT NULL, PRIMARY KEY (key, platform));
CREATE TABLE approvals (
  token TEXT PRIMARY KEY, at REAL NOT NULL, intent TEXT NOT NULL, question TEXT NOT NULL, max_cost REAL,
  platform TEXT NOT NULL, approved_at REAL);
CREATE TABLE overrides (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, workspace TEXT NOT NULL, environment TEXT NOT NULL,
  fingerprint TEXT NOT NULL, code TEXT NOT NULL, reason TEXT NOT NULL);
CREATE TABLE spend (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, intent TEXT NOT NULL, amount REAL NOT NULL, what TEXT NOT NULL,
  platform TEXT NOT NULL, asked INTEGER, bound REAL, actual REAL, workspace TEXT, environment TEXT);
CREATE TABLE jobs (
  id TEXT PRIMARY KEY, at REAL NOT NULL, workspace TEXT NOT NULL, environment TEXT NOT NULL, source TEXT NOT NULL,
  content TEXT NOT NULL, intent TEXT NOT NULL, state TEXT NOT NULL, pid INTEGER, lease REAL NOT NULL,
  deadline REAL NOT NULL, platform TEXT, spec TEXT NOT NULL, progress TEXT NOT NULL, judged INTEGER NOT NULL);
CREATE TABLE calls (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, workspace TEXT NOT NULL, tool TEXT NOT NULL, status TEXT NOT NULL,
  seconds REAL NOT NULL, summary TEXT NOT NULL);
"""


INDEXES = {
    "evidence_by_source": "evidence (tool, source, workspace)",
    "evidence_by_content": "evidence (tool, content, workspace, environment)",
    "evidence_by_config": "evidence (tool, config_sha256, workspace)",
    "evidence_by_environment": "evidence (tool, environment, workspace)",
    "evidence_of_source": "evidence (source, workspace)",
    "snapshots_by_source": "snapshots (source)",
    "snapshots_by_content": "snapshots (content)",
    "snapshots_by_cli_hash": "snapshots (cli_hash)",
    "pushes_by_name": "pushes (owner, name)",
    "pushes_by_source": "pushes (source)",
    "jobs_by_state": "jobs (workspace, state, judged)",
    "jobs_by_environment": "jobs (workspace, environment)",
    "runs_by_kind": "runs (kind, name)",
    "runs_by_workspace": "runs (workspace)",
}
"""Indexes for what every call asks. A ledger gets them when it is opened; they are no part of the schema's version."""

MIGRATIONS = {
    1: ("ALTER TABLE spend ADD COLUMN asked INTEGER",),
    2: tuple(
        f"ALTER TABLE spend ADD COLUMN {column}"
        for column in ("bound REAL", "actual REAL", "workspace TEXT", "environment TEXT")
    ),
}
"""Statements that bring a ledger from a version to the next one."""


def schema_statements() -> list[str]:
    """The statements of the schema. sqlite recognises their ends, because triggers contain semicolons."""
    statements, current = [], ""
    for line in _SCHEMA.splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current) and current.strip():
            statements.append(current)
            current = ""
    return statements
