# dd with large blocks.
dd if=/dev/zero of=out bs=4M count=150 conv=fsync
