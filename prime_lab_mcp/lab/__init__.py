"""The domain logic, on five floors. docs/architecture.md says what belongs on each, and tests/test_floors.py holds the
table of which packages and modules may import which."""
