"""`iotrail serve`: the page of a cluster, over a trail, a running collector, or one that it starts itself.

One port serves the built page, questions to the trail (`/api/…`, answered by the modules of `sql/cluster`), and the
collector's live stream, relayed unchanged.
"""
