"""The benchmarks behind docs/performance.md. `python -m benchmarks` measures the budgets on this machine and writes the page.

No test depends on a figure: the tests run each benchmark at a tiny size, to check that it works.
"""
