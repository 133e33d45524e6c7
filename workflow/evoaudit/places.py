"""Where things are in the folder of a run: addresses that tables name and the report fills."""

import hashlib

#: Suspects, and audited trajectories beside them, that get a page of their own at most.
PAGES = 500


def trajectory_page(trajectory: str) -> str:
    """Return the address of a trajectory's own page, the same in every run; ids come from logs, so the file is named by a hash."""
    return f"trajectories/{hashlib.sha256(trajectory.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.html"
