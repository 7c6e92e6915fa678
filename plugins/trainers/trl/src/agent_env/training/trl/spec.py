"""`BundleSpec`: what TRL's ``GRPOTrainer`` takes of a served bundle."""

from __future__ import annotations

import json
import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, cast

from agent_env.errors import UsageError
from agent_env.rollout.background import background
from agent_env.training.trl.callback import make_callback
from agent_env.training.trl.discover import Offer, choose_splits, discover
from agent_env.training.trl.environment import About, BundleEnvironment, Live, environment_class
from agent_env.training.trl.episode import Bounds
from agent_env.training.trl.imports import third_party
from agent_env.training.trl.reward import BundleReward

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent_env.training.trl.reward import OnFailure


class BundleSpec:
    """A served bundle for TRL::

        spec = BundleSpec("http://127.0.0.1:8000")
        trainer = GRPOTrainer(
            model=model,
            args=config,
            train_dataset=spec.train_dataset,
            eval_dataset=spec.eval_dataset,
            environment_factory=spec.environment_factory,
            reward_funcs=spec.reward_funcs,
            callbacks=[spec.callback],
        )

    Nothing is asked of the server before a member is used.

    Args:
        url: address of the bundle's server.
        train_split: split to train on; default ``train`` where there is one, else the first of that type, else
            ``all``.
        eval_split: split to evaluate on; default ``eval`` where there is one.
        limit: the first tasks of each split only.
        token_var: environment variable that holds the server's token.
        tool_timeout: seconds for a tool call.
        reset_timeout: seconds for getting an episode, waiting in line and retries included, and for each turn's end
            with its verifiers.
        on_infra_failure: what becomes of a rollout whose episode failed, so that it has no reward: ``mask`` leaves
            it out of its group, ``drop`` leaves the whole group out, ``raise`` ends the training.
        name: begins the names of the environments; give each bundle its own when a run plays several.
    """

    def __init__(
        self,
        url: str,
        *,
        train_split: str | None = None,
        eval_split: str | None = None,
        limit: int | None = None,
        token_var: str | None = None,
        tool_timeout: float = 60.0,
        reset_timeout: float = 600.0,
        on_infra_failure: OnFailure = "mask",
        name: str = "bundle",
    ) -> None:
        if "@" in url.partition("?")[0]:
            raise UsageError("the address holds a user name or password: use token_var=NAME instead")
        if limit is not None and limit < 1:
            raise UsageError(f"limit must be at least 1, got {limit}")
        for key, value in (("tool_timeout", tool_timeout), ("reset_timeout", reset_timeout)):
            if not 0 < value < float("inf"):
                raise UsageError(f"{key} must be seconds above 0, got {value}")
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
            raise UsageError(f"name must be letters, digits and underscores, got {name!r}")
        self.url = url.rstrip("/")
        self._train_split = train_split
        self._eval_split = eval_split
        self._limit = limit
        self._token_var = token_var
        self._bounds = Bounds(tool_timeout, reset_timeout)
        self._name = name
        self._reward = BundleReward(on_infra_failure)
        self._live = Live()

    @classmethod
    def from_row(cls, row: Mapping[str, Any], **options: Any) -> Self:
        """The spec with the settings of a row of ``agentenv rows trl``; ``options`` are those of the class."""
        own = cast("dict[str, Any]", json.loads(row["agentenv"]))
        return cls(own.pop("url"), **{**own, **options})

    def __repr__(self) -> str:
        return f"BundleSpec({self.url!r})"

    def __getstate__(self) -> dict[str, Any]:
        kept = {"_splits", "_offer"}  # data; classes and datasets are made again where they are needed
        state = {key: value for key, value in vars(self).items() if key in kept or not _is_cached(type(self), key)}
        return {**state, "_live": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._live = Live()

    @cached_property
    def train_dataset(self) -> Any:
        """A ``datasets.Dataset`` with the columns ``prompt, split, index, task_id, environment``.

        The prompts are yours to edit. A task with a ``<seed>`` placeholder needs a further column ``seed``.
        """
        return self._dataset(self._splits[0])

    @cached_property
    def eval_dataset(self) -> Any:
        """As `train_dataset`, `None` when the bundle has no split to evaluate on."""
        split = self._splits[1]
        return None if split is None else self._dataset(split)

    @cached_property
    def environment_factory(self) -> Any:
        """The class of the environments; a dict by name when the tasks of the bundle differ in their tools.

        Raises:
            UsageError: a tool cannot be offered to TRL; it is named.
        """
        classes = self.environment_classes
        return dict(classes) if len(classes) > 1 else next(iter(classes.values()))

    @cached_property
    def environment_classes(self) -> dict[str, type[BundleEnvironment]]:
        """The classes by name, to put several bundles into one run: merge the dicts, and join the datasets."""
        return {
            name: environment_class(name, About(self.url, self._token, tuple(tools), self._bounds, self._live))
            for name, tools in self._offer.tools.items()
        }

    @property
    def tools(self) -> dict[str, list[dict[str, Any]]]:
        """OpenAI function schemas by the name of the environment."""
        return self._offer.tools

    def rows(self, split: str) -> list[dict[str, Any]]:
        """The rows of a split that is trained or evaluated on, as `train_dataset` holds them."""
        return self._offer.rows[split]

    @property
    def reward_funcs(self) -> Callable[..., list[float | None]]:
        """The one reward function; a failed episode is `None`, which TRL leaves out, never 0."""
        return self._reward

    @cached_property
    def callback(self) -> Any:
        """A trainer callback that closes the environments when training ends and tells cut replies from whole ones."""
        return make_callback(self.close, self._learn_ends)

    def close(self) -> None:
        """Give every open episode back to the server. Environments stay usable: a reset begins anew."""
        self._live.close()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _token(self) -> str | None:
        return read_token(self._token_var)

    def _learn_ends(self, ends: frozenset[int]) -> None:
        self._reward.ends = ends

    @cached_property
    def _splits(self) -> tuple[str, str | None]:
        work = choose_splits(self.url, self._train_split, self._eval_split, token=self._token())
        return background().run(work)

    @cached_property
    def _offer(self) -> Offer:
        splits = [split for split in self._splits if split is not None]
        return background().run(
            discover(self.url, splits, token=self._token(), bounds=self._bounds, limit=self._limit, prefix=self._name)
        )

    def _dataset(self, split: str) -> Any:
        return third_party("datasets").Dataset.from_list(self.rows(split))


def read_token(variable: str | None) -> str | None:
    """The server's token.

    Raises:
        UsageError: the variable is not set.
    """
    if variable is None:
        return None
    token = os.environ.get(variable)
    if not token:
        raise UsageError(f"the environment variable {variable} (token_var), which holds the token, is not set")
    return token


def _is_cached(cls: type, name: str) -> bool:
    return isinstance(getattr(cls, name, None), cached_property)
