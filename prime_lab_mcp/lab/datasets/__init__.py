"""What the rows of a dataset are: their source, which columns matter, the form of the answers, what is wrong.

Nothing here imports `datasets`: small text files are read in this process, the rest by a program that the toolchain's
interpreter runs (lab/worker/dataset_program.py). Guessing and judging are pure functions over plain rows.
"""
