"""`python -m app` is the `runtally` command."""

from app.platform.server.imports import without_garbage_collection

with without_garbage_collection():
    from app.cli.main import app


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
