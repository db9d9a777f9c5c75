"""Messages in progress in the database, in case the machine and its journal are lost."""
