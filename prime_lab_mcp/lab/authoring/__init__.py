"""New environments: a template of resources/templates, renamed, fitted to a dataset, put in place in one step."""
