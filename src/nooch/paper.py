"""The paper's published sets, results, tables and figures, and Waterbirds."""

import lazy_loader

# names are relative to the package, as in the stub
__getattr__, __dir__, __all__ = lazy_loader.attach_stub("nooch", __file__)
