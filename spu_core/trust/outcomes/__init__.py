"""Check outcomes: review queues, the outcomes that come back, and what the next training learns from them."""
