"""A simulation of the Prime platform on loopback, so that the whole workflow runs without account, network or cost.

The simulation is a separate program (`python -m prime_lab_mcp.rehearsal`). The server imports only `connection`.
"""
