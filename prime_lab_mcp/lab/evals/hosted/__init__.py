"""Evaluations that run on the platform, as jobs like those of this machine: asked for, followed, read and stopped here.

The platform runs the latest published version and nothing else. What is started is recorded before the call goes out
and named after its intent, so that an unknown outcome is looked up and never sent twice.
"""
