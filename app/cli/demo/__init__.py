"""`runtally demo`: the whole system on one machine, without an API key and without network access."""
