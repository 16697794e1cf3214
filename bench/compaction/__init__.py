"""The benchmark of compaction: policies, ours and others', over recorded sessions, without a model.

    python -m bench.compaction --help

Figures and what they cannot show: docs/benchmark.md.
"""
