"""What a change of a distributed storage system would bring, from a trail of its requests (Stardust, SIGMETRICS 2006, §6)."""
