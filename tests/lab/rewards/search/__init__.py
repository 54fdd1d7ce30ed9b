"""Tests of the search for reward holes."""
