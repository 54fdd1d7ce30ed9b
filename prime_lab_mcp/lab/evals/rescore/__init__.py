"""Scores the rollouts of an earlier evaluation with the present reward, without inference, as a new evaluation."""

from __future__ import annotations
