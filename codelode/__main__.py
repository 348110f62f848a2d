"""`python -m codelode`: the same as the `codelode` command."""

from codelode.cli import main

if __name__ == "__main__":
    main()
