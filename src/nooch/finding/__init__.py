"""Finding: a dataset and criteria -> a suite of challenge sets; embeddings, threshold sweeps, and
summaries of suites.
"""
