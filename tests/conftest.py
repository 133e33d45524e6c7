"""What every test may use."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hearing import hear
from hypothesis import settings

# How long an example takes says more about what else the machine does than about the code.
settings.register_profile("evoaudit", deadline=None)
settings.load_profile("evoaudit")

ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("EVOAUDIT_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def real_logs() -> Path:
    """Real trajectories in their native formats, where this machine has them."""
    if not (SHARED / "data").is_dir():
        pytest.skip("no folder of real logs; set EVOAUDIT_SHARED to one")
    return SHARED / "data"


@pytest.fixture
def heard() -> Iterator[None]:
    """Heed Ctrl-C, to which a suite that a shell started in the background is deaf."""
    before = signal.getsignal(signal.SIGINT)
    hear()
    yield
    signal.signal(signal.SIGINT, before)
