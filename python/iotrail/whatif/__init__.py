"""What a change would bring, asked of a trail: `iotrail whatif`."""
