"""Hosted evaluations, which run on the platform: plan, start, follow, judge and stop them.

The platform runs only the latest published version of an environment. A start is recorded before the request goes out,
and the name of the evaluation contains a hash of its intent. If the outcome of the request is unknown, the evaluation
is looked up by name, so that it is never started twice.
"""
