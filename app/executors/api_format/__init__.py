"""The provider's Messages API as every executor meets it: prompts, streamed events, failures; pure."""
