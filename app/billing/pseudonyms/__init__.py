"""End users by salted hashes: on the chain from the start, and on receipts after an erasure."""
