"""crossgcn: predict a column of a table with links, as an exact sum of named terms; and a layer.

The names in ``__init__.pyi`` are the public interface. Names are imported on first use, so that
``import crossgcn`` and ``crossgcn --help`` do not wait for torch.
"""

from crossgcn.lazy_names import lazy_names

__version__ = "1.0.0"

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
