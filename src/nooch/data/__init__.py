"""A Dataset is an annotated image collection: immutable, in one order, kept as a checked folder."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
