"""A feedback-guided search for reward holes that no probe lists: completions made without knowing the answer that are
paid more than the best trivial policy deserves.
"""
