"""Graphs, tools and models that can be used."""
