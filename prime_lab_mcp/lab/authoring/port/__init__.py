"""Ports a v0 environment to v1: a package beside the old one with its rows, prompts, parsers, rewards, tools and turns.

The old code is never imported here. A confined worker that loaded the old environment says which functions it uses and
with which values; the code of these functions is cut out of the old files by their syntax.
"""
