"""Checking: where a model errs because of the context, as findings with effects and intervals."""
