"""Dispatching: which run is executed when and by which process: order, limits and fairness."""
