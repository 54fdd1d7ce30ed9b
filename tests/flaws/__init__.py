"""Rewards with a known flaw, and sound ones: `python -m tests.flaws` tells which of them test_reward tells apart."""
