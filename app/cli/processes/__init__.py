"""`runtally serve --processes`: several server processes of one command, on one port."""
