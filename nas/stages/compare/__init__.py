"""Compare models: quality, cost and latency in one table and one plot."""
