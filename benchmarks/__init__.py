"""What docs/performance.md is made from. `python -m benchmarks` measures the budgets on this machine and writes the page.

No test depends on a figure: tests run each benchmark at a tiny size, to see that it works.
"""
