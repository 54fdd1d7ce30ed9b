"""What a release consists of, built from one version: `make release` (docs/releasing.md)."""
