"""A throttle lets the first event of each interval pass."""

from __future__ import annotations

from gateway.throttle import Throttle


def test_the_first_event_of_each_interval_passes():
    times = iter([5.0, 5.1, 14.9, 15.0, 15.1])
    throttle = Throttle(10.0, lambda: next(times))
    assert [throttle.passes() for _ in range(5)] == [True, False, False, True, False]


def test_after_a_reset_the_next_event_passes():
    throttle = Throttle(10.0, lambda: 5.0)
    assert throttle.passes()
    throttle.reset()
    assert throttle.passes()
