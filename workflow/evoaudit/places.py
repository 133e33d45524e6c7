"""Where things are in the folder of a run: addresses that tables name and the report fills."""

import hashlib
from urllib.parse import quote

#: Suspects, and audited trajectories beside them, that get a page of their own at most.
PAGES = 500
#: The page on which single questions are looked through.
ITEMS = "items/index.html"


def trajectory_page(trajectory: str) -> str:
    """Return the address of a trajectory's own page, the same in every run; ids come from logs, so the file is named by a hash."""
    return f"trajectories/{hashlib.sha256(trajectory.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.html"


def item_link(up: str, **wanted: str) -> str:
    """Return a link to the page of questions, ``up`` being the way to the run's folder; it opens one ``item`` or filters, by ``model``."""
    return f"{up}{ITEMS}#" + "&".join(f"{name}={quote(value, safe='')}" for name, value in wanted.items())
