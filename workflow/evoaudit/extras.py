"""What only an optional extra of the package installs, and how to say that it is missing."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from evoaudit.errors import InputError

#: The built-in model that reads text, and the version of RapidOCR whose bundled models and defaults its answers stand for.
OCR_MODEL, OCR_VERSION = "ocr-difference", "3.10.0"


@cache
def no_ocr() -> str | None:
    """Return why text in pictures cannot be read here, or None."""
    missing = [name for name in ("rapidocr", "onnxruntime") if find_spec(name) is None]
    if missing:
        return f"needs {' and '.join(missing)}, which only the optional extra 'ocr' installs"
    try:
        found = version("rapidocr")
    except PackageNotFoundError:
        found = "of no known version"
    return None if found == OCR_VERSION else f"needs rapidocr {OCR_VERSION}, whose models come with it, and not {found}"


def require_ocr(name: str) -> None:
    """Refuse a model that reads text where that cannot be done."""
    if why := no_ocr():
        raise InputError(f"model '{name}'", why, "run `make ocr`, or leave the model out")
