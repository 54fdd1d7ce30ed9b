"""Ports a v0 environment to v1: writes a new package with its rows, prompts, parsers, rewards, tools and turns.

The old code is never imported here. A confined worker that loaded the old environment reports the functions that it
uses, and their values. The source of these functions is cut out of the old files by its syntax.
"""
