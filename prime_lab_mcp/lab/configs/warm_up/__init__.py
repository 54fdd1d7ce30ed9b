"""Supervised fine-tuning before RL, for a model that solves nothing yet: its conversations and its config."""
