"""Who waits for whom in a recorded program: `iotrail waits`."""
