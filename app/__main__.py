"""`python -m app` is the `runtally` command."""

from app.platform.server.imports import quick_imports

with quick_imports():
    from app.cli.errors import run_commands
    from app.cli.logs import configure_logs
    from app.cli.main import app


def main() -> None:
    """Run the command line; what it logs goes to standard error, so that programs can read what it prints."""
    configure_logs()
    run_commands(app)


if __name__ == "__main__":
    main()
