"""The wire of the Vercel AI SDK's chats."""
