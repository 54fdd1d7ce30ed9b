"""The workflow: one module per tool, in the order an agent meets them."""
