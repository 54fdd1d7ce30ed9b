"""Evaluations that run on the platform: requested, followed, read and stopped like those of this machine.

The platform runs only the latest published version. A start is recorded before the request goes out, and the evaluation
is named after its intent. If the outcome is unknown, the evaluation is looked up by name and never started twice.
"""
