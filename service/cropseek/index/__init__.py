"""Distance: which stored vectors are nearest to a query."""

from cropseek.index.exact import ExactIndex, set_threads
from cropseek.index.follower import Follower, Query

__all__ = ["ExactIndex", "Follower", "Query", "set_threads"]
