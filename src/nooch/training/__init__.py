"""Training: methods, samplers, trainers of heads and networks, and their records.

Torch is imported where it is used.
"""
