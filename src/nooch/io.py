"""Readers of annotations, splits, attributes and thresholds, for ``nooch.import_dataset``."""

import lazy_loader

# names are relative to the package, as in the stub
__getattr__, __dir__, __all__ = lazy_loader.attach_stub("nooch", __file__)
