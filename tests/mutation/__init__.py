"""Changes single expressions of the modules that decide about money and evidence, and runs their tests on each."""
