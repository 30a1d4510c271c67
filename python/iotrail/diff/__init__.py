"""`iotrail diff`: what differs between runs, beyond what runs of one program differ by, ranked by the time it adds. docs/diff.md says how."""
