"""Find the images whose context misleads a vision model.

    import nooch

    data = nooch.load_dataset("coco")
    suite = nooch.find(data, {"ce": nooch.CE(alpha=0.05, beta=0.1)}, tasks=["car", "tie"])
    suite.set("ce", "car", "test").ids("hard_positive")

Names are imported when they are first used, so that ``import nooch`` starts at once.
"""

import lazy_loader

from nooch.base.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
