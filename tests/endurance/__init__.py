"""What the servers survive: kills, fuzzed messages, broken pipes, full and read-only disks, an hour of load. Run as a program."""
