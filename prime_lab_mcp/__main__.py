"""`python -m prime_lab_mcp` is the command `prime-lab-mcp`."""

from prime_lab_mcp.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
