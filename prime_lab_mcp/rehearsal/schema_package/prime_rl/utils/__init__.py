"""What the worker imports from here."""
