"""Finding: a dataset and criteria -> a suite; embeddings, threshold sweeps, summaries of suites."""
