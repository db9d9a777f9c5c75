"""The branches of a conversation, and where in them a posted message belongs."""
