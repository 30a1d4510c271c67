"""`iotrail explain`: why a client complains, asked of a trail as its section 6 of Stardust (SIGMETRICS 2006) does by hand.

Was a resource saturated (`resources`)? Did a step of its requests take longer than usual (`usual`)? What does it ask for
(`pattern`)? `verdict` puts that into words, each with its evidence.
"""
