"""Models of storage devices: fit one to the requests that a real device served, and compare the two.

Python chooses parameters; `crates/sim` simulates every request.
"""
