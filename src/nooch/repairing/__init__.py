"""Repair: new last layers on frozen features of a user's model, compared with what was before."""
