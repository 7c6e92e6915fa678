"""The options of a provider: a pydantic model, whose mistakes are the user's and told as such."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from agent_env.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

ModelT = TypeVar("ModelT", bound="BaseModel")


def read_options(model: type[ModelT], provider: str, given: Mapping[str, Any]) -> ModelT:
    """The options, from what ``--sandbox-option`` or Python code gave.

    Raises:
        UsageError: all that is wrong with them, and what options there are.
    """
    from pydantic import ValidationError

    try:
        return model(**given)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        known = ", ".join(model.model_fields)
        raise UsageError(f"options of the {provider} sandbox: {problems} (known: {known})") from error
