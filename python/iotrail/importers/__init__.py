"""Other tools' traces as trails: one file per format, what they share in `base` and `source`; `command` is `iotrail import`.

An importer reads by columns (Arrow's CSV reader, numpy on binaries). Where a record needs those before it,
as strace's do, the native binary reads them.
"""
