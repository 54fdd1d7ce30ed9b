"""The local page: a read-only view of one workspace, its evaluations, runs and spending, served over HTTP."""
