"""A loopback stand-in of the Prime platform, so that the whole workflow runs with no account, network or spend.

It is a program of its own (`python -m prime_lab_mcp.rehearsal`); the server imports only `connection`.
"""
