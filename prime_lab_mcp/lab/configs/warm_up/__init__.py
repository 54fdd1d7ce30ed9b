"""Supervised fine-tuning (warm-up) before RL, for a model that solves no task yet: its conversations and its config."""
