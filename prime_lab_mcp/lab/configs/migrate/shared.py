"""What prime-rl shares between its components is set in one place, and evaluation belongs to the orchestrator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prime_lab_mcp.lab.configs.migrate.tables import move_keys

if TYPE_CHECKING:
    from prime_lab_mcp.lab.configs.migrate.mover import Mover

_SHARED = (
    ("max_steps", ("orchestrator.max_steps", "trainer.max_steps")),
    ("model.name", ("orchestrator.model.name", "trainer.model.name", "inference.vllm.model")),
)
_ONCE = "set once, shared by all components"


def share(mover: Mover) -> None:
    move_keys(mover)
    _evaluation(mover)
    _lengths(mover)
    for path in ("orchestrator.model.lora.rank", "orchestrator.model.lora.alpha"):
        if mover.draft.get(path) is not None:
            mover.drop(path, mover.draft.pop(path), "trainer.model.lora holds for all components")
    for shared, paths in _SHARED:
        for path in paths:
            if (value := mover.draft.get(path)) is None:
                continue
            mover.draft.pop(path)
            if mover.draft.get(shared) is None:
                mover.place(path, shared, value, _ONCE)
            else:
                mover.drop(path, value, f"{shared} holds for all components")


def _evaluation(mover: Mover) -> None:
    table = mover.draft.get("eval")
    if isinstance(table, dict):
        mover.draft.pop("eval")
        if not table:
            mover.drop("eval", table, "it was empty")
        for key, value in table.items():
            if key == "eval_base_model":
                _inverted(mover, "eval.eval_base_model", value)
                continue
            new = {"rollouts_per_example": "group_size"}.get(key, key)
            mover.place(f"eval.{key}", f"orchestrator.eval.{new}", value, "evaluation belongs to the orchestrator")
        move_keys(mover)  # what came along may be renamed below its new place (eval.sampling.max_tokens)
    if mover.draft.get("orchestrator.eval.eval_base_model") is not None:
        place = "orchestrator.eval.eval_base_model"
        _inverted(mover, place, mover.draft.pop(place))


def _inverted(mover: Mover, old: str, value: object) -> None:
    flag = not value if isinstance(value, bool) else False
    mover.place(old, "orchestrator.eval.skip_first_step", flag, "renamed with the opposite sense", was=value)


def _lengths(mover: Mover) -> None:
    """seq_len of the orchestrator had to fit into that of the trainer; today one holds for both."""
    paths = ("orchestrator.seq_len", "trainer.model.seq_len")
    own = {path: mover.draft.get(path) for path in paths if mover.draft.get(path) is not None}
    if not own:
        return
    shared = own.get(paths[0], mover.draft.get("seq_len") or own.get(paths[1]))
    top = mover.draft.get("seq_len")
    if top is not None and top != shared:
        mover.rows.dropped("seq_len", top, "the orchestrator's own length held", f"seq_len = {shared}")
    for path, value in own.items():
        mover.draft.pop(path)
        mover.rows.moved(path, "seq_len", shared, _ONCE, was=value)
    mover.draft.put("seq_len", shared, f"from {mover.name}")
