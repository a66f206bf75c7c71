"""The paper's plots: how scores and losses change with a level or a threshold."""
