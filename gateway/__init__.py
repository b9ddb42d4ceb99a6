"""The gateway: the customers' API, orders, dispatch and storage."""
