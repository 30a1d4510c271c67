"""Where a system falls short of what it should reach: clusters of anomalous settings.

Follows Shen, Zhong and Li, "I/O system performance debugging using model-driven anomaly characterization" (FAST 2005),
sections 4.2 and 5. `space` has settings and boxes of them; `algorithm` is the paper's clustering, `pursuit` one that tells
overlapping causes apart; `evidence` says how sure a cluster is.
"""
