"""`iotrail model` and `iotrail generate`: workload models, fitted to trails and drawn from.

`iotrail-native model` (crates/model) fits, draws and describes; Python asks the trail, compares, shows.
"""
