"""Orders: quotes, the life of an order, its units, leases, results and deliveries."""
