"""The guide: the documents as pages."""
