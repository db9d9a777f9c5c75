"""The revision of the database's schema: migrating to the newest, and which releases can use which."""
