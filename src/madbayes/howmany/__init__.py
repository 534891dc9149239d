"""How many groups the data supports: ladders of divisions, tests on held-out rows, `Choice`."""
