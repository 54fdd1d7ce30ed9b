"""Training configs (prime-rl TOML): read, judged, written and migrated. No account and no network here."""
