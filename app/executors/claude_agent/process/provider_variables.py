"""Environment variables that choose the CLI's provider and credentials; pure.

This is the only list. With the machine's own login none of them reaches the CLI: a single one could
bill another account, or send prompts to another provider.
"""

NAMES = frozenset(
    {
        *("CLOUD_ML_REGION", "GCLOUD_PROJECT", "GLOBAL_AGENT_HTTP_PROXY", "GLOBAL_AGENT_HTTPS_PROXY"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"),
        *("NODE_OPTIONS", "NODE_EXTRA_CA_CERTS", "NODE_TLS_REJECT_UNAUTHORIZED", "SSL_CERT_FILE"),
        *("CLAUDE_CODE_EXTRA_BODY", "CLAUDE_CODE_SUBAGENT_MODEL", "CLAUDE_CODE_SIMPLE"),
        *("CLAUDE_CODE_SESSION_ACCESS_TOKEN", "CLAUDE_CODE_CLIENT_CERT", "CLAUDE_CODE_CLIENT_KEY"),
        *("CLAUDE_CODE_CUSTOM_OAUTH_URL", "CLAUDE_CODE_HOST_CREDS_FILE"),
    }
)

PREFIXES = (
    # Keys, tokens, base URLs, headers and models: of the API itself, of Bedrock, Vertex and Foundry.
    "ANTHROPIC_",
    *("AWS_", "GOOGLE_", "VERTEX_", "AZURE_"),
    *("CLAUDE_CODE_USE_", "CLAUDE_CODE_SKIP_", "CLAUDE_CODE_OAUTH_", "CLAUDE_CODE_API_"),
)


def chooses_provider(name: str) -> bool:
    """Whether a variable is one of them; proxies are read in either case."""
    return name.upper() in NAMES or name.upper().startswith(PREFIXES)
