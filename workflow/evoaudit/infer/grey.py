"""Pictures as arrays of grey levels, for the solvers that compare them."""

from io import BytesIO

import numpy as np

#: Grey difference, of 255, above which a pixel counts as changed.
CHANGED = 24


def grey(data: bytes, size: tuple[int, int] | None = None) -> np.ndarray:
    """Return a picture as rows of grey levels, resized to width and height if they are given."""
    from PIL import Image

    with Image.open(BytesIO(data)) as picture:
        levels = picture.convert("L")
    if size is not None and levels.size != size:
        levels = levels.resize(size, Image.Resampling.BOX)
    return np.asarray(levels, dtype=np.int32)
