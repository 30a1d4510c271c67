"""The documentation: its commands run, its links lead somewhere."""
