"""One app must not fill an answer alone while another has something about as good.

Servers describe their tools alike, so one with many tools can take every place of a short list with near copies of one
answer, and the tool of another server that fits hardly less is never seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from typing import TypeVar

CLOSE = 0.1
"""Scores no further apart than this are close: the largest round number that costs less than a tenth of a point.
Measured with the ranking by words on the development sets whose tools have servers (LiveMCPBench, StableToolBench),
five places: 4 to 9 % of the answers change, recall@5 falls by at most 0.5 points on any set and by 0.06 in the mean of
the eight, nDCG@10 by less. At 0.2 one set loses 5.7 points."""

APP_EVERY = 5
"""One place in so many, and at least one, may go to a further app. Five is the usual length of an answer."""

T = TypeVar("T")


def diversified(
    ranked: Iterable[T],
    top: int,
    *,
    app_of: Callable[[T], Hashable],
    score_of: Callable[[T], float],
    close: float = CLOSE,
) -> list[T]:
    """The first `top` of `ranked`, the last places given to further apps where few apps crowd out all others.

    While they come from fewer than two apps (of ten or more places: than three, and so on), the best of the next app
    takes the place of the lowest that is not the only one of its app, provided its score is at most `close` below. The
    first never moves, and those that stay keep their order.

    Args:
        ranked: best first. Read no further than needed: past the last place only down to scores that are not close.
        top: places, at least 0.
        app_of: the app of one.
        score_of: its score; must not rise along `ranked`.
        close: largest difference of scores that counts as about as good.
    """
    rest = iter(ranked)
    shown = list(islice(rest, top))
    of_app = Counter(map(app_of, shown))
    wanted = 1 + max(1, top // APP_EVERY)
    while len(of_app) < wanted:
        place = next((n for n in range(len(shown) - 1, 0, -1) if of_app[app_of(shown[n])] > 1), None)
        if place is None:
            break
        least = score_of(shown[place]) - close
        other = next((item for item in rest if app_of(item) not in of_app or score_of(item) < least), None)
        if other is None or score_of(other) < least:
            break
        of_app[app_of(shown.pop(place))] -= 1
        of_app[app_of(other)] = 1
        shown.append(other)
    return shown
