"""All that a node asks of dispatch: announcing itself, seeing demand, and leasing work."""

from gateway.orders.auditing import lease_audit
from gateway.orders.demand import demand
from gateway.orders.generation import lease_generation
from gateway.orders.leases import heartbeat, release, stop
from gateway.orders.nodes import announce

__all__ = ["announce", "demand", "heartbeat", "lease_audit", "lease_generation", "release", "stop"]
