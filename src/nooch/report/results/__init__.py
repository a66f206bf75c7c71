"""Training runs -> scores, chosen settings, the paper's tables."""
