"""Programs, neighbours and peers that mean harm, or do it by mistake: what they cost, and whom."""
