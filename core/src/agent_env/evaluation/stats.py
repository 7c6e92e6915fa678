"""The statistics of an evaluation in plain Python: means, standard errors, pass@k, intervals of differences."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_DRAWS = 5_000_000


def mean_and_stderr(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Mean and its standard error (sample deviation over the root of n); `None` where it does not exist."""
    if not values:
        return None, None
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return mean, None
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))


def pass_at_k(episodes: int, solved: int, k: int) -> float | None:
    """Chance that at least one of ``k`` episodes drawn from ``episodes`` without replacement is solved.

    This is the unbiased estimate of pass@k; `None` with fewer than ``k`` episodes.
    """
    if not 0 <= solved <= episodes or k < 1:
        raise ValueError(f"no pass@{k} of {solved} solved among {episodes}")
    if episodes < k:
        return None
    return 1.0 - math.comb(episodes - solved, k) / math.comb(episodes, k)


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval of a mean."""

    low: float
    high: float


def t_interval(values: Sequence[float], level: float = 0.95) -> Interval | None:
    """Student's interval of the mean; `None` with fewer than two values."""
    mean, stderr = mean_and_stderr(values)
    if mean is None or stderr is None:
        return None
    reach = t_quantile(0.5 + level / 2, len(values) - 1) * stderr
    return Interval(mean - reach, mean + reach)


def bootstrap_interval(
    values: Sequence[float], level: float = 0.95, *, resamples: int = 10_000, seed: int = 0
) -> Interval | None:
    """Percentile bootstrap of the mean, the same for the same ``seed``; `None` with fewer than two values.

    Fewer resamples are drawn of very many values, where both intervals agree anyway.
    """
    count = len(values)
    if count < 2:
        return None
    rng = random.Random(seed)  # noqa: S311
    drawn = max(200, min(resamples, _MOST_DRAWS // count))
    means = sorted(math.fsum(rng.choices(values, k=count)) / count for _ in range(drawn))
    tail = (1 - level) / 2
    return Interval(quantile(means, tail), quantile(means, 1 - tail))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which ``share`` of the ordered values lie, linear between neighbours."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    value = ordered[low] + (place - low) * (ordered[high] - ordered[low])
    return min(max(value, ordered[low]), ordered[high])


def t_quantile(share: float, freedom: int) -> float:
    """Quantile of Student's t distribution, ``share`` in (0, 1)."""
    if share < 0.5:
        return -t_quantile(1 - share, freedom)
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < share:
        low, high = high, high * 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_cdf(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def t_cdf(t: float, freedom: int) -> float:
    """Distribution function of Student's t."""
    tail = 0.5 * _beta_share(freedom / (freedom + t * t), freedom / 2, 0.5)
    return 1 - tail if t >= 0 else tail


def _beta_share(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, evaluated from the front (Lentz)."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 500):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + term * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + term / c
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value
