"""`conversations`: ours, as clients of OpenAI's API create and read them."""
