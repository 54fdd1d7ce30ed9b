"""What the servers survive: kills, fuzzed messages, broken pipes, full and read-only disks, load. Run as a program."""
