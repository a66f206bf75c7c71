"""Training: methods, samplers, trainers of heads and networks, and their records.

Torch is imported only when used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
