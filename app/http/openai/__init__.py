"""The wire of OpenAI's API, for clients that know no other one."""
