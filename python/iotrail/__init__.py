"""iotrail: a flight recorder and debugger for storage I/O.

>>> from iotrail.trail import Trail
>>> Trail("app.trail").query("FROM call_summary")  # a DuckDB relation
"""
