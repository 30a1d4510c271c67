"""Answers to what a change of storage would bring: `iotrail whatif`."""
