"""How large a unit is: pure policy over the order, the miner and its speed."""

import pytest

from gateway.orders.planner import share_of, unit_lines
from gateway.orders.policy import Policy
from gateway.store.tables import Order


def order_of(**values):

    fields = {"lines_usable": 100, "cursor_line": 0, "n": 1, "max_tokens": 10, "longest_prompt": 10}
    return Order(**{**fields, **values})


@pytest.mark.parametrize(
    ("order", "policy", "node_samples", "share", "lines"),
    [
        ({}, {"unit_samples": 8}, 256, 1.0, 8),
        ({"n": 3}, {"unit_samples": 8}, 256, 1.0, 2),
        ({"n": 64}, {"unit_samples": 8}, 8, 1.0, 1),
        ({"cursor_line": 95}, {"unit_samples": 8}, 256, 1.0, 5),
        ({}, {}, 256, 0.25, 25),
        ({}, {}, 16, 0.25, 16),
        ({"n": 2}, {}, 256, 0.25, 25),
        ({"max_tokens": 131_072}, {"unit_tokens": 2**20}, 256, 1.0, 7),
        ({"lines_usable": 50_000}, {"unit_samples": 10_000}, 256, 1.0, 4096),
    ],
)
def test_the_size_of_a_unit(order, policy, node_samples, share, lines):
    assert unit_lines(order_of(**order), Policy(**policy), node_samples, share) == lines


def test_shares_follow_speed():
    assert share_of(None, []) == 1.0
    assert share_of(None, [None, None, None]) == 0.25
    assert share_of(30.0, [10.0]) == 0.75
    assert share_of(None, [10.0]) == 0.5
