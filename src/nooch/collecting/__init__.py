"""Collecting: a suite and a pool of images -> those that training lacks most."""
