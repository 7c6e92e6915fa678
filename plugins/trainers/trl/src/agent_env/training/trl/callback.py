"""The trainer callback: it learns which tokens end a reply, and closes the environments when training ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from agent_env.training.trl.imports import third_party

if TYPE_CHECKING:
    from collections.abc import Callable


def make_callback(close: Callable[[], None], learn: Callable[[frozenset[int]], None]) -> Any:
    """A ``transformers.TrainerCallback``.

    Args:
        close: called when training ends.
        learn: called with the tokens that end a reply.
    """
    base: type[object] = third_party("transformers").TrainerCallback

    class BundleCallback(base):  # type: ignore[misc, valid-type]
        def on_init_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            del args, state, control
            learn(end_tokens(others.get("processing_class"), others.get("model")))

        def on_train_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            del args, state, control, others
            close()

    return BundleCallback()


def end_tokens(processing: Any, model: Any = None) -> frozenset[int]:
    """The tokens with which a reply ends, padding included, as far as they are known."""
    tokenizer = getattr(processing, "tokenizer", processing)
    settings = getattr(model, "generation_config", None)
    found = (
        getattr(tokenizer, "eos_token_id", None),
        getattr(tokenizer, "pad_token_id", None),
        getattr(settings, "eos_token_id", None),
    )
    ids: set[int] = set()
    for item in found:
        ids.update(cast("list[int]", item) if isinstance(item, list) else [item] if isinstance(item, int) else [])
    return frozenset(ids)
