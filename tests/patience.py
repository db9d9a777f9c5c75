"""How long tests wait for what must happen."""

PATIENCE_S = 120.0
"""Only ends what hangs: no machine is so busy that it takes this long."""
