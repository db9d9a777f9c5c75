"""The provider's web tools: which a run has, and how often it may use them."""
