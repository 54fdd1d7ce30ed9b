"""What the servers survive: kills, fuzzed messages, broken pipes, full disks, an hour of load. Run as a program."""
