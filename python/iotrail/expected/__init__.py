"""What a storage stack ought to reach, layer by layer.

A layer takes a workload and gives the layer below another one, and changes the throughput that the layer below reaches
(Shen, Zhong and Li, "I/O system performance debugging using model-driven anomaly characterization", FAST 2005, section 3).
`workload` is what an application asks for, `prefetch`, `scheduling` and `device` are the layers, `paper` puts them together.
"""
