"""Runs the two checks over a folder of environments that somebody names. Nothing of such a folder is kept here."""
