"""What names a question: its content alone, so that it survives another seed, another order and another presentation."""

import hashlib

from evoaudit.store import canonical


def instance_id(task: str, trajectory_id: str, images: list[str], *asked: str) -> str:
    """Return a question's id from its trajectory, its pictures in logged order and whatever else is asked (T2's action and value)."""
    text = canonical([task, trajectory_id, images, *asked])
    return f"{task}-{hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=8).hexdigest()}"
