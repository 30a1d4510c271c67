"""Measurements of a system over a space of settings, unattended: what `iotrail sweep` does.

`spec` reads what is to be measured, `sampling` chooses settings, `targets` measure one.
"""
