"""Multimodal-Mind2Web rows: one an action, with the whole page before it."""

import json

from evoaudit.simulate.actors import Episode, Step
from evoaudit.simulate.deal import Deal
from evoaudit.simulate.formats.base import Pieces, draw_of, dump, shot, tag, uuid
from evoaudit.simulate.screen import Screen, Widget

#: Demonstrations a file; row groups of at most ROWS rows bound the memory of writer and reader.
PER_FILE, ROWS = 1000, 500
_OPS = {"click": "CLICK", "type": "TYPE", "select": "SELECT", "hover": "CLICK"}


def file(number: int, total: int) -> str:
    """Return the file that holds demonstration ``number`` of ``total``."""
    return f"mind2web/data/train-{number // PER_FILE:05d}-of-{(total + PER_FILE - 1) // PER_FILE:05d}.parquet"


def schema():
    """Return the Arrow schema."""
    import pyarrow as pa

    text, texts = pa.string(), pa.list_(pa.string())
    return pa.schema(
        [
            ("action_uid", text),
            ("raw_html", text),
            ("cleaned_html", text),
            ("operation", text),
            ("pos_candidates", texts),
            ("neg_candidates", texts),
            ("website", text),
            ("domain", text),
            ("subdomain", text),
            ("annotation_id", text),
            ("confirmed_task", text),
            ("screenshot", pa.struct([("bytes", pa.binary()), ("path", text)])),
            ("action_reprs", texts),
            ("target_action_index", text),
            ("target_action_reprs", text),
        ]
    )


def write(episode: Episode, deal: Deal, seed: int, faulty: bool) -> Pieces:
    """Return a demonstration's rows; now and then one is missing, as where people found a picture spoilt."""
    draw, site = draw_of(deal, seed), episode.task.site
    annotation = uuid(draw, "annotation")
    steps = [s for s in episode.steps if s.verb in _OPS and s.hit is not None]
    reprs = [_repr(s) for s in steps]
    left_out = draw.between(2, len(steps) - 2, "left out") if draw.chance(6, "filtered") and len(steps) > 5 else None
    unseen = draw.between(1, len(steps) - 2, "unseen") if draw.chance(2, "no picture") else None
    pieces = Pieces(annotation)
    for k, step in enumerate(steps):
        if k == left_out:
            continue
        uid = uuid(draw, "action", k)
        data = None if k == unseen else shot(step.before, whole=True)
        if faulty and deal.number == 2 and k == 1:
            data = data[: len(data) // 2]
            pieces.fault("mind2web", f"{annotation}#{k}", "truncated picture")
        if faulty and deal.number == 7 and k == 2:
            data = LFS_ROW
            pieces.fault("mind2web", f"{annotation}#{k}", "Git LFS pointer as picture")
        html = _html(step.before, step.hit, uid)
        pieces.rows.append(
            {
                "action_uid": uid,
                "raw_html": f"<html><head><title>{step.before.title}</title></head><body>{html}</body></html>",
                "cleaned_html": html,
                "operation": json.dumps(
                    {
                        "original_op": "HOVER" if step.verb == "hover" else _OPS[step.verb],
                        "value": step.value if step.verb != "click" else "",
                        "op": _OPS[step.verb],
                    }
                ),
                "pos_candidates": []
                if draw.chance(3, "target lost", k)
                else [_candidate(step.before, step.hit, True, draw.chance(50, "bool", k))],
                "neg_candidates": [_candidate(step.before, w, False, True) for w in step.before.widgets if w.key and w is not step.hit][:4],
                "website": site.name.lower(),
                "domain": site.domain,
                "subdomain": site.subdomain,
                "annotation_id": annotation,
                "confirmed_task": episode.task.instruction,
                "screenshot": None if data is None else {"bytes": data, "path": f"{uid}.png"},
                "action_reprs": reprs,
                "target_action_index": str(k),
                "target_action_reprs": reprs[k],
            }
        )
    return pieces


LFS_ROW = b"version https://git-lfs.github.com/spec/v1\noid sha256:91c1a4b2\nsize 4242\n"


def _repr(step: Step) -> str:
    value = f": {step.value}" if step.verb in ("type", "select") else ""
    return f"[{step.hit.role}]  {step.hit.name} -> {_OPS[step.verb] if step.verb != 'hover' else 'HOVER'}{value}"


def _candidate(screen: Screen, w: Widget, positive: bool, plain: bool) -> str:
    """Return a candidate, JSON in JSON; flags are spelt both ways in the wild."""
    node = str(100 + next(i for i, other in enumerate(screen.widgets) if other is w))
    attributes = {
        "backend_node_id": node,
        "bounding_box_rect": f"{float(w.x)},{float(w.y)},{float(w.w)},{float(w.h)}",
        "class": w.look,
        "id": w.key.replace(":", "-"),
        "data_pw_testid_buckeye_candidate": "1",
    }
    found = {"tag": tag(w), "backend_node_id": node, "attributes": dump(attributes)}
    if positive:
        found |= {"is_original_target": True if plain else "True", "is_top_level_target": True if plain else "True"}
    return dump(found)


def _html(screen: Screen, target: Widget, uid: str) -> str:
    parts = []
    for w in screen.widgets:
        if w.name:
            mark = f' data_pw_testid_buckeye="{uid}"' if w is target else ""
            parts.append(f"<{tag(w)}{mark}>{w.name.replace('&', '&amp;').replace('<', '&lt;')}</{tag(w)}>")
    return "".join(parts)
